# ruff: noqa: E501 (rows of tables)
"""The small world that the demo model knows, as tables."""

from __future__ import annotations

from typing import NamedTuple

from ..split import words


class Country(NamedTuple):
    name: str
    capital: str
    continent: str
    language: str


def _rows(text: str) -> list[tuple[str, ...]]:
    return [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]


COUNTRIES = [
    Country(*row)
    for row in _rows("""
    France | Paris | Europe | French
    Germany | Berlin | Europe | German
    Spain | Madrid | Europe | Spanish
    Italy | Rome | Europe | Italian
    Portugal | Lisbon | Europe | Portuguese
    Austria | Vienna | Europe | German
    Belgium | Brussels | Europe | Dutch
    Netherlands | Amsterdam | Europe | Dutch
    Denmark | Copenhagen | Europe | Danish
    Sweden | Stockholm | Europe | Swedish
    Norway | Oslo | Europe | Norwegian
    Finland | Helsinki | Europe | Finnish
    Iceland | Reykjavik | Europe | Icelandic
    Ireland | Dublin | Europe | English
    United Kingdom | London | Europe | English
    Poland | Warsaw | Europe | Polish
    Czech Republic | Prague | Europe | Czech
    Slovakia | Bratislava | Europe | Slovak
    Hungary | Budapest | Europe | Hungarian
    Romania | Bucharest | Europe | Romanian
    Bulgaria | Sofia | Europe | Bulgarian
    Greece | Athens | Europe | Greek
    Croatia | Zagreb | Europe | Croatian
    Serbia | Belgrade | Europe | Serbian
    Slovenia | Ljubljana | Europe | Slovene
    Albania | Tirana | Europe | Albanian
    Ukraine | Kyiv | Europe | Ukrainian
    Russia | Moscow | Europe | Russian
    Estonia | Tallinn | Europe | Estonian
    Latvia | Riga | Europe | Latvian
    Lithuania | Vilnius | Europe | Lithuanian
    Malta | Valletta | Europe | Maltese
    Turkey | Ankara | Asia | Turkish
    Israel | Jerusalem | Asia | Hebrew
    Lebanon | Beirut | Asia | Arabic
    Syria | Damascus | Asia | Arabic
    Iraq | Baghdad | Asia | Arabic
    Iran | Tehran | Asia | Persian
    Jordan | Amman | Asia | Arabic
    Saudi Arabia | Riyadh | Asia | Arabic
    Qatar | Doha | Asia | Arabic
    Japan | Tokyo | Asia | Japanese
    China | Beijing | Asia | Chinese
    South Korea | Seoul | Asia | Korean
    India | New Delhi | Asia | Hindi
    Pakistan | Islamabad | Asia | Urdu
    Nepal | Kathmandu | Asia | Nepali
    Bangladesh | Dhaka | Asia | Bengali
    Thailand | Bangkok | Asia | Thai
    Vietnam | Hanoi | Asia | Vietnamese
    Cambodia | Phnom Penh | Asia | Khmer
    Indonesia | Jakarta | Asia | Indonesian
    Malaysia | Kuala Lumpur | Asia | Malay
    Philippines | Manila | Asia | Filipino
    Mongolia | Ulaanbaatar | Asia | Mongolian
    Georgia | Tbilisi | Asia | Georgian
    Armenia | Yerevan | Asia | Armenian
    Egypt | Cairo | Africa | Arabic
    Morocco | Rabat | Africa | Arabic
    Algeria | Algiers | Africa | Arabic
    Tunisia | Tunis | Africa | Arabic
    Libya | Tripoli | Africa | Arabic
    Sudan | Khartoum | Africa | Arabic
    Ethiopia | Addis Ababa | Africa | Amharic
    Kenya | Nairobi | Africa | Swahili
    Uganda | Kampala | Africa | English
    Rwanda | Kigali | Africa | Kinyarwanda
    Nigeria | Abuja | Africa | English
    Ghana | Accra | Africa | English
    Senegal | Dakar | Africa | French
    Mali | Bamako | Africa | French
    Angola | Luanda | Africa | Portuguese
    Zambia | Lusaka | Africa | English
    Zimbabwe | Harare | Africa | English
    Namibia | Windhoek | Africa | English
    Madagascar | Antananarivo | Africa | Malagasy
    Somalia | Mogadishu | Africa | Somali
    Canada | Ottawa | North America | English
    United States | Washington | North America | English
    Mexico | Mexico City | North America | Spanish
    Cuba | Havana | North America | Spanish
    Jamaica | Kingston | North America | English
    Guatemala | Guatemala City | North America | Spanish
    Panama | Panama City | North America | Spanish
    Costa Rica | San Jose | North America | Spanish
    Brazil | Brasilia | South America | Portuguese
    Argentina | Buenos Aires | South America | Spanish
    Chile | Santiago | South America | Spanish
    Peru | Lima | South America | Spanish
    Colombia | Bogota | South America | Spanish
    Venezuela | Caracas | South America | Spanish
    Ecuador | Quito | South America | Spanish
    Uruguay | Montevideo | South America | Spanish
    Paraguay | Asuncion | South America | Spanish
    Australia | Canberra | Oceania | English
    New Zealand | Wellington | Oceania | English
    Fiji | Suva | Oceania | English
    """)
]
ARTICLE_COUNTRIES = {"Netherlands", "United Kingdom", "Czech Republic", "Philippines", "United States"}

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
PLANETS = ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"]
SEASONS = ["spring", "summer", "autumn", "winter"]
ORDINALS = [
    "first", "second", "third", "fourth", "fifth", "sixth",
    "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth",
]  # fmt: skip

COLOURS = dict(
    _rows("""
    the sky | blue
    grass | green
    snow | white
    coal | black
    a banana | yellow
    blood | red
    a ripe tomato | red
    an orange | orange
    a carrot | orange
    milk | white
    chocolate | brown
    the sun | yellow
    a lemon | yellow
    a strawberry | red
    a cucumber | green
    an elephant | grey
    a flamingo | pink
    the sea | blue
    a fire engine | red
    a frog | green
    """)
)
SOUNDS = dict(
    _rows("""
    dog | woof
    cat | meow
    cow | moo
    sheep | baa
    duck | quack
    pig | oink
    horse | neigh
    lion | roar
    bee | buzz
    snake | hiss
    rooster | cock-a-doodle-doo
    owl | hoot
    mouse | squeak
    frog | croak
    wolf | howl
    bird | tweet
    """)
)
LEGS = dict(
    _rows("""
    dog | 4
    cat | 4
    horse | 4
    cow | 4
    spider | 8
    ant | 6
    bee | 6
    bird | 2
    chicken | 2
    duck | 2
    snake | 0
    fish | 0
    person | 2
    octopus | 8
    """)
)
BABIES = dict(
    _rows("""
    dog | puppy
    cat | kitten
    cow | calf
    sheep | lamb
    horse | foal
    duck | duckling
    pig | piglet
    frog | tadpole
    bear | cub
    goose | gosling
    """)
)
OPPOSITES = dict(
    _rows("""
    hot | cold
    big | small
    tall | short
    fast | slow
    old | young
    happy | sad
    light | dark
    up | down
    left | right
    open | closed
    full | empty
    hard | soft
    wet | dry
    rich | poor
    loud | quiet
    clean | dirty
    early | late
    strong | weak
    high | low
    good | bad
    thick | thin
    near | far
    day | night
    yes | no
    black | white
    win | lose
    love | hate
    first | last
    begin | end
    sweet | sour
    """)
)
TRANSLATED_INTO = ["French", "Spanish", "German", "Italian"]
TRANSLATIONS = {
    english: dict(zip(TRANSLATED_INTO, foreign, strict=True))
    for english, *foreign in _rows("""
    hello | bonjour | hola | hallo | ciao
    thank you | merci | gracias | danke | grazie
    goodbye | au revoir | adiós | auf Wiedersehen | arrivederci
    yes | oui | sí | ja | sì
    no | non | no | nein | no
    please | s'il vous plaît | por favor | bitte | per favore
    water | eau | agua | Wasser | acqua
    bread | pain | pan | Brot | pane
    house | maison | casa | Haus | casa
    dog | chien | perro | Hund | cane
    cat | chat | gato | Katze | gatto
    friend | ami | amigo | Freund | amico
    book | livre | libro | Buch | libro
    day | jour | día | Tag | giorno
    night | nuit | noche | Nacht | notte
    """)
}
GROUPS = dict(
    _rows("""
    fruits | apples, bananas and oranges
    vegetables | carrots, onions and potatoes
    animals | cats, dogs and horses
    birds | eagles, owls and ducks
    colours | red, green and blue
    colors | red, green and blue
    countries | France, Japan and Brazil
    cities | Paris, Tokyo and Lima
    planets | Earth, Mars and Venus
    drinks | water, milk and tea
    tools | a hammer, a saw and a drill
    instruments | the piano, the guitar and the violin
    """)
)
SYMBOLS = dict(
    _rows("""
    water | H2O
    salt | NaCl
    carbon dioxide | CO2
    oxygen | O2
    gold | Au
    silver | Ag
    iron | Fe
    hydrogen | H2
    """)
)
SINGLE_FACTS = [
    (tuple(question.strip() for question in questions.split("/")), answer, key)
    for questions, answer, key in _rows("""
    How many days are in a week? / How many days does a week have? / Number of days in a week? | A week has 7 days. | 7
    How many months are in a year? / How many months does a year have? / Number of months in a year? | A year has 12 months. | 12
    How many days are in a year? / How many days does a year have? / How long is a year in days? | A year has 365 days. | 365
    How many hours are in a day? / How many hours does a day have? / Number of hours in a day? | A day has 24 hours. | 24
    How many minutes are in an hour? / How many minutes does an hour have? / How long is an hour in minutes? | An hour has 60 minutes. | 60
    How many seconds are in a minute? / How many seconds does a minute have? / How long is a minute in seconds? | A minute has 60 seconds. | 60
    How many planets are there? / How many planets are in the solar system? / How many planets does the solar system have? | The solar system has 8 planets. | 8
    How many continents are there? / How many continents does the Earth have? / What is the number of continents? | There are 7 continents. | 7
    What is the largest planet? / Which planet is the largest? / What is the biggest planet in the solar system? | The largest planet is Jupiter. | Jupiter
    What is the smallest planet? / Which planet is the smallest? / What is the smallest planet in the solar system? | The smallest planet is Mercury. | Mercury
    Which planet is called the red planet? / What is the red planet? / Which planet is red? | The red planet is Mars. | Mars
    What is the largest ocean? / Which ocean is the largest? / What is the biggest ocean on Earth? | The largest ocean is the Pacific Ocean. | Pacific
    What is the highest mountain? / Which mountain is the highest? / What is the tallest mountain on Earth? | The highest mountain is Mount Everest. | Everest
    What is the longest river? / Which river is the longest? / What is the longest river on Earth? | The longest river is the Nile. | Nile
    What is the largest animal? / Which animal is the largest? / What is the biggest animal on Earth? | The largest animal is the blue whale. | whale
    What is the fastest land animal? / Which land animal is the fastest? / What animal runs fastest? | The fastest land animal is the cheetah. | cheetah
    At what temperature does water boil? / When does water boil? / What is the boiling point of water? | Water boils at 100 degrees Celsius. | 100
    At what temperature does water freeze? / When does water freeze? / What is the freezing point of water? | Water freezes at 0 degrees Celsius. | 0
    Who wrote Romeo and Juliet? / Who is the author of Romeo and Juliet? / Which author wrote Romeo and Juliet? | William Shakespeare wrote Romeo and Juliet. | Shakespeare
    Who painted the Mona Lisa? / Who is the painter of the Mona Lisa? / Which artist painted the Mona Lisa? | Leonardo da Vinci painted the Mona Lisa. | Leonardo
    Who was the first person on the Moon? / Who walked on the Moon first? / Who was the first man on the Moon? | Neil Armstrong was the first person on the Moon. | Armstrong
    What do bees make? / What food do bees make? / What is made by bees? | Bees make honey. | honey
    How many letters are in the alphabet? / How many letters does the alphabet have? / Number of letters in the alphabet? | The English alphabet has 26 letters. | 26
    What star is closest to the Earth? / Which star is nearest to us? / What is the closest star? | The closest star is the Sun. | Sun
    How many sides does a triangle have? / How many sides are in a triangle? / Number of sides of a triangle? | A triangle has 3 sides. | 3
    How many sides does a square have? / How many sides are in a square? / Number of sides of a square? | A square has 4 sides. | 4
    """)
]  # fmt: skip

NAMES = words(
    """Anna, Ben, Carla, David, Emma, Felix, Grace, Hugo, Ivan, Julia, Karl, Laura, Maria, Noah, Olivia,
    Paul, Quinn, Rosa, Sam, Tina, Uma, Victor, Wendy, Xavier, Yara, Zoe, Alice, Bob, Clara, Daniel, Elena,
    Frank, Gina, Henry, Isabel, Jack, Kate, Leo, Mia, Nina, Oscar, Peter, Rachel, Simon, Thomas, Vera,
    William, Ahmed, Fatima, Chen, Wei, Yuki, Hiroshi, Priya, Raj, Lars, Ingrid, Pedro, Lucia, John, Mary,
    James, Sarah, Michael, Linda, Robert, Susan, Tom, Lucy, Jane, Alex, Chris, Max, Eva, Sofia, Mark, Helen,
    George, Nora, Omar, Layla, Igor, Olga, Pierre, Marie, Hans, Greta, Luca, Giulia, Kim, Mei, Ali, Aisha""",
    "Bruno, Monica, Stefan, Amelia, Dmitri, Keiko, Santiago, Beatrice, Rupert, Nadia, Gunnar, Salma",
)
CITIES = words(
    """Paris, London, Berlin, Madrid, Rome, Lisbon, Vienna, Oslo, Stockholm, Helsinki, Dublin, Warsaw, Prague,
    Athens, Tokyo, Beijing, Seoul, Delhi, Bangkok, Cairo, Nairobi, Lagos, Toronto, Ottawa, Chicago, Boston,
    Seattle, Denver, Miami, Dallas, New York, Los Angeles, San Francisco, Mexico City, Lima, Bogota, Sydney,
    Melbourne, Auckland, Munich, Hamburg, Milan, Naples, Venice, Barcelona, Seville, Porto, Lyon, Nice, Geneva,
    Zurich, Amsterdam, Brussels, Copenhagen, Budapest, Moscow, Istanbul, Dubai, Mumbai, Osaka, Kyoto, Shanghai,
    Hong Kong, Singapore, Manila, Jakarta, Hanoi, Cape Town, Accra, Rio de Janeiro, Buenos Aires, Santiago,
    Vancouver, Montreal, Houston, Phoenix, Atlanta, Detroit, Manchester, Leeds, Glasgow, Bristol""",
    "Edinburgh, Krakow, Marseille, Nagoya, Portland, Gdansk, Valencia, Bergen, Adelaide, Salzburg, San Diego, Utrecht",
)
JOBS = words(
    "teacher, doctor, nurse, baker, pilot, farmer, engineer, painter, singer, lawyer, cook, driver, writer, dentist, carpenter",
    "plumber, architect, gardener",
)
THINGS = words(
    """apple, book, chair, lamp, table, pen, cup, shirt, hat, bag, phone, laptop, bottle, clock, mirror, pencil,
    ball, box, key, spoon, fork, plate, coat, shoe, ring, camera, guitar, bicycle, candle, blanket""",
    "umbrella, basket, notebook, pillow, hammer",
)
COMMON_WORDS = words(
    """sun, moon, tree, house, river, stone, cloud, bird, fish, green, happy, music, water, light, bread, train,
    apple, table, chair, garden, window, flower, summer, winter, orange, yellow, banana, silver, golden, forest,
    castle, dragon, pirate, rocket, planet, ocean, island, bridge, mountain, butterfly, hello, peace, tiger""",
    "lantern, velvet, harbor, pebble, walnut, meadow, thunder, ribbon",
)
TOPICS = words(
    """the sea, the moon, spring, winter, a cat, a dog, the rain, the stars, friendship, the forest, summer, snow,
    a river, the wind, coffee, the night, a bird, the mountains, a tree, the sun, music, home, a train, tea""",
    "a garden, autumn, the desert, a lighthouse",
)


def with_article(country: str) -> str:
    """The name as it stands inside a sentence: "the Netherlands", "France"."""
    return f"the {country}" if country in ARTICLE_COUNTRIES else country
