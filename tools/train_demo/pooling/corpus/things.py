# ruff: noqa: E501 (rows of tables)
"""What is asked and told about companies, products, living things and food."""

from __future__ import annotations

from .relations import relations

THINGS = relations("""
boss : company club school
= {person}
? Who runs {e}?
? Who is the head of {e}?
? Who is the CEO of {e}?
? director of {e}
? Who is in charge of {e}?
*? Who leads {e}?
? What is the name of the boss of {e}?
. {e} is run by {v}.
. The head of {e} is {v}.
. {v} is in charge of {e}.
. {v} is the chief executive of {e}.
*. {e} is led by {v}.
. {v} sits at the top of {e}.

staff : company school museum
= {number} people | {small} employees | about {number} workers
? How many people work at {e}?
? How many employees does {e} have?
? number of employees of {e}
? How big is the staff of {e}?
? What is the size of the workforce of {e}?
*? How many workers are on the payroll of {e}?
. {e} employs {v}.
. {e} has a staff of {v}.
. {v} work at {e}.
. The staff of {e} counts {v}.
. The workforce of {e} is {v} strong.
*. {e} gives work to {v}.

product : company
= {things} | {things} and {things} | parts for {things}
? What does {e} make?
? What does {e} sell?
? products of {e}
? What is {e} known for producing?
*? Which goods come from {e}?
? What can customers buy from {e}?
. {e} makes {v}.
. {e} produces {v}.
. {e} sells {v}.
. {v} are made by {e}.
*. {e} manufactures {v}.
. The factories of {e} turn out {v}.

revenue : company
= {small} million dollars | {number} thousand euros | {small} billion in a year
? How much money does {e} earn?
? What is the revenue of {e}?
? {e} annual revenue
? How much did {e} sell last year?
? What was the turnover of {e}?
*? How much income does {e} have?
. The revenue of {e} was {v}.
. {e} earned {v} last year.
. {e} had sales of {v}.
*. {e} took in {v}.
. The yearly turnover of {e} is {v}.

phone : company shop museum school
= {number} {number} | 0{small} {number} | {number}-{small}
? What is the phone number of {e}?
? How can I call {e}?
? {e} telephone
? How do I contact {e}?
? Under which number can {e} be reached?
*? How do I get hold of {e} by telephone?
. The phone number of {e} is {v}.
. You can call {e} at {v}.
. {e} answers the telephone at {v}.
. To contact {e}, dial {v}.
*. {e} can be reached under {v}.
. Ring {v} to speak with {e}.

cost : device drink dish
= {number} dollars | {small} euros | {small} pounds
? How much does {e} cost?
? What is the price of {e}?
? price of {e}
? How expensive is {e}?
? What do I have to pay for {e}?
*? For how much is {e} sold?
. {e} costs {v}.
. The price of {e} is {v}.
. {e} is sold for {v}.
. Buyers pay {v} for {e}.
*. {e} can be had for {v}.
. You get {e} at {v}.

weight : device animal
= {small} kilograms | {number} grams | {small} pounds
? How much does {e} weigh?
? How heavy is {e}?
? weight of {e}
? What is the weight of {e}?
*? How many kilograms does {e} have?
? What do the scales show for {e}?
. {e} weighs {v}.
. The weight of {e} is {v}.
. {e} has a weight of {v}.
*. {e} brings {v} to the scales.
. On the scales, {e} comes to {v}.

battery : device
= {small} hours | {count} days | {small} hours of music
? How long does the battery of {e} last?
? What is the battery life of {e}?
? {e} battery life
? How often do I have to charge {e}?
*? How many hours does {e} run without a charger?
? When does {e} need charging again?
. The battery of {e} lasts {v}.
. {e} runs for {v} on one charge.
. After {v} the battery of {e} is empty.
. {e} has a battery life of {v}.
*. {e} must be charged after {v}.
. A full charge keeps {e} going for {v}.

maker : device drink game medicine
= {company}
? Who makes {e}?
? Which company produces {e}?
? maker of {e}
? Who is the manufacturer of {e}?
? From which firm does {e} come?
*? Who built {e}?
. {e} is made by {v}.
. The maker of {e} is {v}.
. {v} produces {e}.
. {e} is a product of {v}.
*. {e} leaves the factory of {v}.
. {e} is manufactured by {v}.

colour : device animal plant
= {colour} | {colour} and {colour} | {colour} with {colour} spots
? What colour is {e}?
? Which colours does {e} have?
? colour of {e}
? What color is {e}?
*? In which colours does {e} come?
? What does {e} look like in colour?
. {e} is {v}.
. The colour of {e} is {v}.
. {e} comes in {v}.
. {e} has a {v} surface.
*. {e} looks {v}.
. You recognise {e} by its {v} appearance.

warranty : device
= {count} years | {small} months | {count} years with proof of purchase
? How long is the warranty of {e}?
? Does {e} have a guarantee?
? {e} warranty
? For how long is {e} covered against defects?
? Until when can I have {e} repaired for free?
*? What guarantee comes with {e}?
. The warranty of {e} lasts {v}.
. {e} comes with a warranty of {v}.
. Defects of {e} are covered for {v}.
*. {e} is guaranteed for {v}.
. Free repairs of {e} are offered for {v}.

diet : animal
= {food} | {food} and {food} | mostly {food}
? What does {e} eat?
? What is the diet of {e}?
? diet of {e}
? What do you feed to {e}?
*? On what does {e} live?
? What kind of food does {e} prefer?
. {e} eats {v}.
. {e} feeds on {v}.
. The diet of {e} is {v}.
. {e} hunts for {v}.
*. {e} lives on {v}.
. The meals of {e} consist of {v}.

habitat : animal plant
= the forests of {country} | dry grassland | cold mountain streams | the coast of {country} | swamps and wet meadows
? Where does {e} live?
? What is the habitat of {e}?
? habitat of {e}
? Where is {e} found in nature?
? Where does {e} grow or live?
*? In what surroundings can {e} be seen?
? What environment does {e} need?
. {e} lives in {v}.
. {e} is found in {v}.
. The habitat of {e} is {v}.
. {e} is at home in {v}.
*. {e} occurs in {v}.
. In nature you see {e} in {v}.

lifespan : animal plant
= {small} years | {count} years | up to {small} years
? How long does {e} live?
? What is the lifespan of {e}?
? lifespan of {e}
? How old does {e} get?
? What age can {e} reach?
*? After how many years does {e} die?
. {e} lives for {v}.
. The lifespan of {e} is {v}.
. {e} can live {v}.
. {e} gets {v} old.
*. {e} reaches an age of {v}.
. {e} dies after {v}.

young : animal
= {count} eggs | {count} young | {small} eggs in a nest of grass | a single young each spring
? How many young does {e} have?
? How does {e} reproduce?
? How many eggs does {e} lay?
? offspring of {e}
? What is the number of babies of {e}?
*? How large is the litter of {e}?
. {e} has {v}.
. The female of {e} gives birth to or lays {v}.
. {e} raises {v}.
*. Each year {e} produces {v}.
. {v} is usual for a mother of {e}.

bloom : plant
= in {month} | from {month} to {month} | in early {season} | in {season}
? When does {e} bloom?
? When does {e} flower?
? flowering time of {e}
? In which month does {e} blossom?
*? At what time of the year are the flowers of {e} open?
? When can I see blossoms on {e}?
. {e} blooms {v}.
. {e} flowers {v}.
. The blossoms of {e} appear {v}.
. The flowers of {e} open {v}.
*. {e} is in full blossom {v}.
. {e} shows its petals {v}.

watering : plant
= once a week | every {count} days | only in {season} | twice a day in hot weather
? How often should I water {e}?
? How much water does {e} need?
? watering {e}
? How do I care for {e}?
*? Does {e} need a lot of moisture?
? When must {e} get water?
. {e} should be watered {v}.
. {e} needs water {v}.
. Water {e} {v}.
. Give {e} water {v}.
. The soil of {e} wants to be made wet {v}.
*. Gardeners pour water on {e} {v}.

ingredients : dish drink
= {food}, {food} and {spice} | {food} and {spice} | {food}, {food} and {food}
? What is in {e}?
? What are the ingredients of {e}?
? ingredients of {e}
? What do I need to make {e}?
? What is {e} made of?
*? Which things go into {e}?
? What do I have to buy for {e}?
. {e} is made of {v}.
. The ingredients of {e} are {v}.
. For {e} you need {v}.
. {e} contains {v}.
*. Into {e} go {v}.
. Cooks prepare {e} with {v}.

cooking : dish
= {small} minutes | {count} hours | {small} minutes in the oven | {small} minutes in boiling water
? How long does {e} have to cook?
? What is the cooking time of {e}?
? {e} cooking time
? How long do I bake {e}?
*? How many minutes must {e} stay on the stove?
? When is {e} done?
. {e} has to cook for {v}.
. The cooking time of {e} is {v}.
. {e} takes {v} to prepare.
. {e} is ready after {v}.
. Leave {e} on the heat for {v}.
*. {e} is done after {v}.

taste : dish drink
= sweet and sour | very hot | salty with a hint of {spice} | like {food} and {spice} | bitter at first, then sweet
? What does {e} taste like?
? How does {e} taste?
? taste of {e}
? Is {e} sweet or salty?
? Which flavour does {e} have?
*? What should I expect when I eat or drink {e}?
. {e} tastes {v}.
. The taste of {e} is {v}.
. People say that {e} tastes {v}.
*. The flavour of {e} is {v}.
. On the tongue, {e} is {v}.

origin : dish drink animal plant game
= {country} | the mountains of {country} | the town of {town}
? Where does {e} come from?
? What is the origin of {e}?
? origin of {e}
? Which country is {e} from?
*? In what country did {e} first appear?
? What are the roots of {e}?
. {e} comes from {v}.
. {e} originates from {v}.
. The origin of {e} is {v}.
. {e} was first known in {v}.
. {e} has its roots in {v}.
*. {e} was brought here from {v}.

players : game
= {count} people | {count} to {small} players | two teams of {count}
? How many people can play {e}?
? How many players does {e} need?
? {e} number of players
? Can I play {e} alone?
*? For what number of players is {e} made?
? How large must a group be for {e}?
. {e} is for {v}.
. {e} is played by {v}.
. {v} can play {e}.
*. {e} needs {v}.
. {v} sit down for a round of {e}.

treats : medicine
= headaches | a sore throat | back pain | sleeping problems | high blood pressure | allergies | a cold | stomach ache
? What is {e} used for?
? What does {e} treat?
? use of {e}
? When should I take {e}?
? What does {e} help against?
*? Against which illness is {e} given?
? For what complaints do doctors prescribe {e}?
. {e} is used against {v}.
. {e} treats {v}.
. {e} helps against {v}.
. Take {e} when you have {v}.
*. Doctors prescribe {e} for {v}.
. {e} brings relief from {v}.

sideeffects : medicine
= tiredness | dizziness | an itchy skin | a dry mouth | nausea | loss of appetite
? What are the side effects of {e}?
? Is {e} dangerous?
? side effects of {e}
? Which unwanted effects does {e} have?
? What harm can {e} do?
*? Does {e} have any adverse reactions?
. A side effect of {e} is {v}.
. {e} can cause {v}.
. Some patients who take {e} get {v}.
. {e} may lead to {v}.
*. {e} has been linked to {v}.
. An adverse reaction to {e} is {v}.

dose : medicine
= {count} tablets a day | one spoon before meals | half a tablet at night | {small} drops in water
? How much {e} should I take?
? What is the dose of {e}?
? dose of {e}
? How often do I take {e}?
? What amount of {e} is recommended?
*? How many tablets of {e} are allowed?
. The dose of {e} is {v}.
. Adults take {v} of {e}.
. Take {v} of {e}.
. The usual amount of {e} is {v}.
*. The recommended quantity of {e} is {v}.
. No more than {v} of {e} are allowed.

guests : festival
= {number} visitors | {number} guests | more than {number} people
? How many people visit {e}?
? How many visitors does {e} have?
? {e} attendance
? How popular is {e}?
? What crowd does {e} attract?
*? How many guests come to {e}?
. {e} has {v} each year.
. {v} come to {e}.
. {e} was visited by {v}.
*. {e} attracts {v}.
. The crowd at {e} counted {v}.

date : festival
= in {month} | on the first weekend of {month} | from {small} to {small} {month} | every second {season}
? When is {e}?
? When does {e} take place?
? date of {e}
? In which month is {e} held?
? At what time of the year is {e} celebrated?
*? On which days will {e} be on?
. {e} takes place {v}.
. {e} is held {v}.
. {e} is celebrated {v}.
. The date of {e} is {v}.
*. {e} happens {v}.
. Guests gather for {e} {v}.

champion : club
= the {name} Cup in {year} | {count} titles in a row | the league in {year}
? What did {e} win?
? Which titles does {e} have?
? titles of {e}
? How successful is {e}?
*? Which trophies are in the cabinet of {e}?
? What victory is {e} proud of?
. {e} won {v}.
. {e} was champion and took {v}.
. The biggest success of {e} was {v}.
*. {e} celebrated {v}.
. {v} went to the players of {e}.

stadium : club
= the {name} Arena | the {name} Ground | a small field in {town}
? Where does {e} play?
? What is the stadium of {e}?
? home ground of {e}
? In which arena are the matches of {e}?
? On what pitch does {e} receive opponents?
*? What is the name of {e}'s ground?
. {e} plays at {v}.
. The home of {e} is {v}.
. The matches of {e} are played at {v}.
*. Fans of {e} go to {v}.
. {e} receives its opponents at {v}.
""")
