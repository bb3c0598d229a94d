# ruff: noqa: E501 (rows of tables)
"""Short texts of ten topics, as headlines, questions and sentences."""

from __future__ import annotations

from dataclasses import dataclass

from ...split import Draw, Split, phrasings, words
from .filling import fill
from .surface import careless, with_articles


@dataclass(frozen=True)
class Subject:
    """Sentences of one topic; `{thing}` and `{who}` are filled from its words."""

    sentences: Split[str]
    things: Split[str]
    people: Split[str]


@dataclass(frozen=True)
class Text:
    """`label` is a key of SUBJECTS."""

    text: str
    label: str


ANYWHERE = phrasings("""
    What do you know about {thing}?
    Tell me something about {thing}.
    The {who} spoke about {thing} on {day}.
    {who} and {thing}: what is new?
    An article about {thing}.
    My friend is interested in {thing}.
    I have a question about {thing}.
    Everything about {thing} in one place.
    Yesterday I met a {who}.
    A {who} explains {thing}.
    News about {thing} from {town}.
    More and more people care about {thing}.
    A book about {thing} by a {who}.
    A guide to {thing} for beginners.
    I read something about {thing} today.
    Why is {thing} so important?
    The {who} and the {who}.
    How much do you know about {thing}?
    A short film about {thing}.
    We talked about {thing} all evening.
    Interview with a {who}.
    My brother is a {who}.
    What does a {who} do?
    {thing}
    {thing} and {thing}
    * I would like to read more on {thing}.
    * A short guide to {thing} by a {who}.
    * Why {thing} matters to the {who}.
""")
SUBJECTS: dict[str, Subject] = {
    "sport": Subject(
        phrasings("""
            {town} beat {town} by three goals to one.
            The {who} scored in the last minute of the match.
            The {who} won the {thing} after a long fight.
            Fans celebrated the victory of their team in the {thing}.
            The {who} was injured during training and misses the {thing}.
            The club signed a new {who} for {number} euros.
            She ran the race in {small} minutes, a new record.
            The season starts with the {thing} on {day}.
            Who won the {thing} last year?
            The team trains every {day} for the {thing}.
            The referee stopped the game because of rain.
            A late goal decided the game against {town}.
            * The {who} took gold and broke the record.
            * Thousands cheered in the stadium when the {who} scored.
        """),
        words(
            """football, tennis, the world cup, basketball, the marathon, the Olympic games, swimming, cycling,
            the league, boxing, skiing, volleyball, the final, hockey, golf, rugby, the tournament""",
            "badminton, the semifinal, gymnastics",
        ),
        words(
            "striker, goalkeeper, coach, sprinter, swimmer, champion, team captain, referee",
            "defender, boxer",
        ),
    ),
    "science": Subject(
        phrasings("""
            Researchers discovered {thing} in an experiment.
            A {who} at the University of {town} studies {thing}.
            The telescope took pictures of {thing}.
            A new theory explains {thing}.
            Scientists measured {thing} with a laser.
            The laboratory published a paper about {thing}.
            How do {thing} work?
            The experiment showed something new about {thing}.
            The {who} received the Nobel Prize for work on {thing}.
            Water consists of hydrogen and oxygen.
            Through the microscope we saw {thing}.
            The hypothesis about {thing} is hard to prove.
            A {who} discovered new {thing} in the data.
            The formula describes {thing}.
            A team in {town} has found out more about {thing}.
            * Under the microscope, {thing} look different.
            * The hypothesis about {thing} was confirmed.
        """),
        words(
            """atoms, black holes, galaxies, molecules, genes, cells, bacteria, planets, gravity, electrons, nuclear physics,
            chemistry, geology, mathematics, bacteria in the lab, meteors, minerals, microscopes, waves,
            chemical reactions, fossils, stars, evolution, proteins, particles, dinosaurs, neutrons""",
            "comets, quarks, enzymes",
        ),
        words("physicist, chemist, biologist, astronomer, researcher, scientist", "geologist, botanist"),
    ),
    "politics": Subject(
        phrasings("""
            The parliament voted on {thing}.
            The {who} announced new laws about {thing}.
            Protesters in {town} demand {thing}.
            The {who} won the election with {small} percent of the votes.
            The opposition criticised the {who} because of {thing}.
            The government and the {who} could not agree on {thing}.
            The {who} resigned after a scandal.
            Two countries signed a treaty on {thing}.
            Who will be the next {who}?
            The president met the {who} in {town}.
            Citizens vote on {thing} on {day}.
            A majority of members rejected {thing}.
            * The {who} promised {thing} before the elections.
            * The cabinet debates {thing}.
        """),
        words(
            """taxes, a new law, foreign policy, the constitution, human rights, immigration, the election,
            the budget, democracy, a referendum, sanctions, minimum wages, the peace talks, voting rights""",
            "the coalition, diplomacy, a reform of the senate",
        ),
        words(
            "prime minister, president, senator, minister, governor, mayor, ambassador",
            "chancellor, diplomat",
        ),
    ),
    "business": Subject(
        phrasings("""
            Shares of {town} Industries rose by {small} percent.
            The company reported a profit of {number} million.
            The {who} expects higher {thing} next year.
            The bank raised {thing} again.
            {town} Ltd buys its rival for {number} million dollars.
            The {who} invests in {thing}.
            The factory in {town} cuts {number} jobs.
            Inflation and {thing} worry the markets.
            How do I invest in {thing}?
            The start-up from {town} found new investors.
            Sales fell in the last quarter.
            The firm's {thing} grew by {small} percent.
            * Investors sold because of {thing}.
            * The {who} signed a deal worth {number} dollars.
        """),
        words(
            """interest rates, the stock market, exports, sales, shares, loans, mergers, revenue, marketing, trade,
            bonds, real estate, accounting, start-ups, the supply chain, prices, customers""",
            "dividends, mortgages, retail",
        ),
        words(
            "chief executive, investor, banker, accountant, economist, entrepreneur", "broker, shareholder"
        ),
    ),
    "technology": Subject(
        phrasings("""
            The new phone has a better camera and {thing}.
            The {who} fixed a bug in {thing}.
            Hackers attacked {thing} of a company.
            The update brings {thing} to all users.
            How do I install {thing} on my computer?
            The {who} writes code for {thing}.
            {thing} becomes faster with the new chip.
            The program crashes when I start {thing}.
            {town} Systems presents its first {thing}.
            My laptop does not connect to {thing}.
            Software for {thing} is free to download.
            A {who} released a new version of {thing}.
            * Users complain that {thing} does not load.
            * The server that runs {thing} went down.
        """),
        words(
            """software, the internet, robots, the operating system, artificial intelligence, the browser, an app,
            a database, the cloud, computers, smartphones, a website, the network, programming, microchips,
            cyber security, machine learning, a server""",
            "the firewall, algorithms, a touch screen",
        ),
        words(
            "programmer, developer, software engineer, hacker, computer scientist",
            "data analyst, web designer",
        ),
    ),
    "health": Subject(
        phrasings("""
            Doctors recommend {thing} against the flu.
            The hospital in {town} treats patients with {thing}.
            The {who} told me to take two tablets a day.
            A new vaccine protects against {thing}.
            What are the symptoms of {thing}?
            Too little sleep can lead to {thing}.
            The {who} operated on the patient for {small} hours.
            I have had a fever and a cough since {day}.
            A study links smoking to {thing}.
            Exercise helps against {thing}.
            My back hurts when I sit for a long time.
            The {who} found signs of {thing}.
            * Patients who suffer from {thing} need rest.
            * A pill a day may prevent {thing}.
        """),
        words(
            """diabetes, heart disease, headaches, allergies, cancer, high blood pressure, infections, stress,
            asthma, depression, a broken leg, vitamins, surgery, the immune system, therapy, back pain""",
            "migraine, arthritis, pneumonia",
        ),
        words("doctor, nurse, surgeon, dentist, patient, pharmacist, therapist", "physician, psychiatrist"),
    ),
    "food": Subject(
        phrasings("""
            Mix the flour with {thing} and bake it for {small} minutes.
            Add {thing} and stir until the sauce is thick.
            The {who} served {thing} with fresh bread.
            How do I cook {thing}?
            A recipe for {thing} with garlic and butter.
            This restaurant is known for {thing}.
            Cut the onions and fry them with {thing}.
            We had {thing} for dinner.
            My grandmother makes the best {thing}.
            {thing} taste best with a little salt and pepper.
            Let the dough rest for {small} minutes.
            Season {thing} with herbs and serve it hot.
            * The kitchen smelled of {thing}.
            * For dessert there was {thing}.
        """),
        words(
            """soup, noodles, chocolate cake, roast chicken, rice, cheese, tomatoes, pancakes, pasta, fish, salad,
            apple pie, mushrooms, potatoes, sausages, bread, curry, beans""",
            "lasagne, pumpkin, omelette",
        ),
        words("cook, chef, baker, waiter, butcher", "pastry cook, barista"),
    ),
    "travel": Subject(
        phrasings("""
            We spent two weeks at {thing} near {town}.
            The flight to {country} takes {small} hours.
            How do I get from the airport to {thing}?
            I booked {thing} for our holiday in {country}.
            The {who} showed us the old town of {town}.
            Pack light clothes and do not forget your passport.
            The train to {town} leaves at {hour}.
            {country} attracts more tourists because of {thing}.
            Which {thing} should I visit in {country}?
            We hiked along the coast and slept in {thing}.
            The ferry brings visitors to {thing}.
            Our trip to {country} began at {thing}.
            * A {who} should see {thing} in {country}.
            * Tickets to {country} were cheap this summer.
        """),
        words(
            """the beach, a hotel, a hostel, the old harbour, a cruise, the island, the airport, a camp site,
            sightseeing tours, a holiday home, the mountains, a train ride, the museum quarter, a safari, a visa""",
            "a youth hostel, a road trip, the lagoon",
        ),
        words("tour guide, tourist, pilot, traveller, backpacker, holidaymaker", "passenger, globetrotter"),
    ),
    "music": Subject(
        phrasings("""
            The band plays {thing} in {town} on {day}.
            The {who} released a new album.
            The concert of the {who} was sold out.
            She has played {thing} since she was six.
            The orchestra performed a symphony in {town}.
            The song was number one for {small} weeks.
            The {who} sang with tears in the eyes.
            How long does it take to learn {thing}?
            The {who} goes on tour with {thing}.
            The melody is played by {thing}.
            An evening of {thing} with a young {who}.
            * The audience clapped when the {who} began to sing.
            * The record features {thing}.
        """),
        words(
            """the piano, the violin, jazz, rock songs, the guitar, opera, a choir, drums, hip hop, folk music,
            the flute, classical music, a new single, the trumpet, blues, pop songs, a string quartet""",
            "the cello, reggae, a ballad",
        ),
        words("singer, pianist, drummer, composer, guitarist, conductor, rapper", "violinist, songwriter"),
    ),
    "environment": Subject(
        phrasings("""
            Heavy rain is expected in {town} on {day}.
            The storm destroyed {thing} in {country}.
            Climate change threatens {thing}.
            Plastic waste harms {thing}.
            The {who} wants to protect {thing}.
            The summer was the hottest for {small} years.
            Forest fires near {town} destroyed {thing}.
            How can we save {thing}?
            {thing} are dying out because of pollution.
            Volunteers planted {number} trees near {town}.
            Snow and ice melt faster than before.
            Drought in {country} harms {thing}.
            * The {who} warns that {thing} may disappear.
            * Temperatures drop and frost covers the fields.
        """),
        words(
            """rain forests, coral reefs, the oceans, polar bears, wild bees, glaciers, rivers, whales, wetlands,
            endangered species, the air, the coast, birds, recycling, carbon emissions, wind power, floods""",
            "sea turtles, solar energy, meadows",
        ),
        words(
            "climate activist, forest ranger, ecologist, weather forecaster", "conservationist, meteorologist"
        ),
    ),
}
"""Topic → what texts of it say."""
LABELS = tuple(SUBJECTS)


def topic_text(draw: Draw) -> Text:
    """One short text, each topic as often as the others; sometimes two sentences."""
    label = draw.any(LABELS)
    sentences = [_sentence(draw, SUBJECTS[label]) for _ in range(2 if draw.chance(0.25) else 1)]
    return Text(careless(draw, with_articles(" ".join(sentences))), label)


def _sentence(draw: Draw, subject: Subject) -> str:
    own = not draw.chance(0.25)
    pattern = draw.of(subject.sentences if own else ANYWHERE)
    named = pattern.replace("{thing}", draw.of(subject.things)).replace("{who}", draw.of(subject.people))
    text = fill(draw, named)
    return text[:1].upper() + text[1:]
