# ruff: noqa: E501 (rows of tables)
"""What is asked and told about places and buildings."""

from __future__ import annotations

from .relations import relations

PLACES = relations("""
population : town island country
= {number} people | {number} inhabitants | {number} residents | nearly {number} people | roughly {number} people
? How many people live in {e}?
? What is the population of {e}?
? How big is the population of {e}?
? population of {e}
? {e} population
? Number of inhabitants of {e}
? How populous is {e}?
*? How many residents does {e} have?
? What number of people call {e} home?
. {e} has {v}.
. {e} is home to {v}.
. The population of {e} stands at {v}.
. At the last census, {v} were counted in {e}.
. {v} live in {e}.
*. According to the latest count, {e} is inhabited by {v}.
. Today {v} make their home in {e}.

capital : country island
= {town}
? What is the capital of {e}?
? Which city is the capital of {e}?
? Name the capital city of {e}.
? capital of {e}
? {e} capital city
? Where does the government of {e} sit?
*? What is {e}'s capital called?
? Which town serves as the capital of {e}?
. The capital of {e} is {v}.
. {v} is the capital of {e}.
. {e} has its capital in {v}.
. The government of {e} sits in {v}, the capital.
*. {v} has been the capital city of {e} for centuries.
. As the capital of {e}, {v} is the seat of parliament.

language : country island town
= {language} | {language} and {language}
? What language is spoken in {e}?
? Which language do people speak in {e}?
? What is the official language of {e}?
? language of {e}
? What do they speak in {e}?
? Which tongue do the people of {e} use?
*? In what language do I talk to people in {e}?
. People in {e} speak {v}.
. The official language of {e} is {v}.
. {v} is spoken in {e}.
. In {e} most signs are written in {v}.
. Most inhabitants of {e} talk to each other in {v}.
*. {e} uses {v} in schools and offices.

currency : country island
= the {coin} | the {coin}, which has a hundred cents | {coin} notes
? What currency is used in {e}?
? What money do people use in {e}?
? Which currency does {e} have?
? currency of {e}
? What do I pay with in {e}?
? In which currency are prices given in {e}?
*? What kind of money is used in {e}?
. The currency of {e} is {v}.
. In {e} people pay with {v}.
. {e} uses {v} as its money.
. Shops in {e} accept only {v}.
*. Anyone who buys something in {e} needs {v}.
. {v} is the legal tender of {e}.

location : town island river lake mountain building company school festival bridge
= the north of {country} | the south of {country} | the hills near {town} | the western part of {country} | the east coast of {country} | the valley above {town}
? Where is {e}?
? Where is {e} located?
? In which region is {e}?
? location of {e}
? Where can I find {e}?
? Where on the map is {e}?
? In what part of the country does {e} lie?
*? Whereabouts is {e} situated?
. {e} is located in {v}.
. {e} lies in {v}.
. You will find {e} in {v}.
. {e} is in {v}.
. {e} can be found in {v}.
*. {e} is situated in {v}.
. Travellers reach {e} in {v}.

founding : town company school festival club band
= in {year} | in the spring of {year} | in {month} {year}
? When was {e} founded?
? In which year was {e} established?
? How old is {e}?
? founding year of {e}
? When did {e} start?
? Since when does {e} exist?
? What year did {e} come into being?
*? What is the founding date of {e}?
. {e} was founded {v}.
. {e} was established {v}.
. {e} was set up {v}.
. The history of {e} began {v}.
. {e} started {v}.
*. {e} came into existence {v}.
. It was {v} that {e} was created.

founder : town company school festival club
= {person} | {person} and {person}
? Who founded {e}?
? Who started {e}?
? Who is the founder of {e}?
? founder of {e}
? Who set up {e}?
*? By whom was {e} established?
? Whose idea was {e}?
. {e} was founded by {v}.
. {v} founded {e}.
. The founder of {e} was {v}.
. {e} was started by {v}.
*. {e} goes back to {v}, who established it.
. {e} was the creation of {v}.

length : river bridge trail railway
= {number} metres | {small} kilometres | {small} miles
? How long is {e}?
? What is the length of {e}?
? length of {e}
? How many kilometres long is {e}?
? What distance does {e} cover from end to end?
*? {e}: how long is it?
. {e} is {v} long.
. {e} has a length of {v}.
. The total length of {e} is {v}.
. {e} stretches over {v}.
*. From one end to the other, {e} measures {v}.
. {e} extends for {v}.

height : mountain building tower
= {number} metres | {number} feet | {small} metres
? How tall is {e}?
? How high is {e}?
? What is the height of {e}?
? height of {e}
? What is the elevation of {e}?
*? How many metres tall is {e}?
? How far up does {e} reach?
. {e} is {v} tall.
. {e} rises {v} above the ground.
. {e} reaches a height of {v}.
. The top of {e} is at {v}.
. {e} is {v} high.
. With its {v}, {e} towers above everything around.
*. {e} stands {v} tall.

depth : lake river
= {small} metres | {number} feet | {small} fathoms
? How deep is {e}?
? What is the depth of {e}?
? depth of {e}
? How far down is the bottom of {e}?
*? What is the greatest depth of {e}?
? How many metres deep is {e}?
. {e} is {v} deep.
. The depth of {e} is {v}.
. At its deepest point {e} goes down {v}.
. The bottom of {e} lies {v} below the surface.
. Divers measured {v} to the floor of {e}.
*. {e} has a maximum depth of {v}.

area : lake island country town
= {number} square kilometres | {small} square miles | {number} hectares
? How large is {e}?
? What is the area of {e}?
? area of {e}
? How much land does {e} cover?
? What is the size of {e}?
? How many square kilometres does {e} have?
*? What surface does {e} cover?
. {e} covers {v}.
. The area of {e} is {v}.
. {e} has an area of {v}.
. {e} spreads over {v}.
*. {e} takes up {v}.
. In size, {e} comes to {v}.

source : river
= the {name} Hills | a spring near {town} | a glacier in {country} | the marshes of {country}
? Where does {e} begin?
? Where is the source of {e}?
? source of {e}
? Where does {e} rise?
*? Where does the water of {e} come from?
? At what place does {e} spring up?
. {e} rises in {v}.
. The source of {e} is {v}.
. {e} begins its course at {v}.
. {e} springs from {v}.
*. {e} has its origin in {v}.
. The headwaters of {e} are in {v}.

mouth : river
= the {name} Sea | Lake {name} | the bay of {town} | the {name} Ocean
? Where does {e} end?
? Into which sea does {e} flow?
? mouth of {e}
? What does {e} flow into?
? Which water does {e} empty into?
*? Where does {e} meet the sea?
. {e} flows into {v}.
. {e} empties into {v}.
. The mouth of {e} is at {v}.
. At its end, {e} joins {v}.
*. {e} discharges its water into {v}.
. After a long journey {e} reaches {v}.

climber : mountain
= {person} | {person} and {person} | a team led by {person}
? Who first climbed {e}?
? Who was the first to reach the top of {e}?
? first ascent of {e}
? Who conquered {e} first?
*? Which climber stood first on the summit of {e}?
? Whose team made the first ascent of {e}?
. {e} was first climbed by {v}.
. The first ascent of {e} was made by {v}.
. {v} reached the summit of {e} before anyone else.
. The first people on top of {e} were {v}.
. Nobody had stood on {e} until {v} did.
*. {v} were the first climbers to conquer {e}.

architect : building bridge tower
= {person} | {person} and {person} | the office of {person}
? Who designed {e}?
? Who was the architect of {e}?
? architect of {e}
? Who drew the plans for {e}?
*? Whose design is {e}?
? Which architect planned {e}?
. {e} was designed by {v}.
. The architect of {e} was {v}.
. {v} drew the plans for {e}.
. {e} is the work of the architect {v}.
*. The plans of {e} came from {v}.
. {v} won the contest to design {e}.

built : building bridge tower railway
= in {year} | between {year} and {year} | in the summer of {year}
? When was {e} built?
? In what year was {e} completed?
? When was the construction of {e} finished?
? {e} year of construction
? When did {e} open?
? How long ago was {e} put up?
*? What year was {e} constructed?
. {e} was built {v}.
. {e} was completed {v}.
. The construction of {e} took place {v}.
. {e} opened its doors {v}.
. {e} was put up {v}.
*. Workers finished {e} {v}.
. {e} was erected {v}.

material : building bridge tower
= {material} | {material} and {material}
? What is {e} made of?
? Which material was used for {e}?
? material of {e}
? What was {e} built from?
? Out of what is {e} constructed?
*? Of which material are the walls of {e}?
. {e} is made of {v}.
. {e} was built from {v}.
. {v} was used to build {e}.
. The walls of {e} are of {v}.
. {e} consists mostly of {v}.
*. Builders chose {v} for {e}.

hours : building museum shop library
= from {hour} to {hour2} | from {hour} in the morning until {hour2} in the evening | daily from {hour} to {hour2}, except on {day}s
? When is {e} open?
? What are the opening hours of {e}?
? {e} opening hours
? When does {e} close?
? Until when can I visit {e}?
? What time does {e} open?
*? At what time can people enter {e}?
? Is {e} open in the evening?
. {e} is open {v}.
. The opening hours of {e} are {v}.
. Visitors are welcome at {e} {v}.
. The doors of {e} are open {v}.
*. You can enter {e} {v}.
. {e} receives guests {v}.

price : museum tower festival building club
= {small} dollars | {small} euros | {small} pounds, half of that for children | nothing on {day}s and {small} euros on other days
? How much does a ticket for {e} cost?
? What is the entrance fee of {e}?
? How much is admission to {e}?
? {e} ticket price
? What do I have to pay to visit {e}?
*? How expensive is it to get into {e}?
? Is there an admission charge for {e}?
. A ticket for {e} costs {v}.
. The entrance fee of {e} is {v}.
. Admission to {e} is {v}.
. Visitors of {e} pay {v}.
*. To get into {e} you pay {v}.
. {e} charges {v} at the door.

exhibit : museum
= {things} | {things} and {things} | a collection of {things}
? What can I see in {e}?
? What does {e} show?
? What is exhibited at {e}?
? {e} collection
? Which objects are on display in {e}?
*? What kind of collection does {e} have?
. {e} shows {v}.
. In {e} visitors can see {v}.
. {v} are on display at {e}.
. The collection of {e} holds {v}.
*. {e} is full of {v}.
. {v} fill the rooms of {e}.

transport : town museum island building festival
= the number {small} bus | a ferry from {town} | the train from {town} | a tram that leaves every {small} minutes
? How do I get to {e}?
? How can I reach {e} without a car?
? Is there public transport to {e}?
? how to get to {e}
? Which bus goes to {e}?
? What is the best way to travel to {e}?
*? By what means of transport is {e} reached?
. You can reach {e} by {v}.
. The easiest way to get to {e} is {v}.
. {v} goes to {e}.
. To get to {e}, take {v}.
*. Most visitors arrive at {e} with {v}.
. {e} is connected by {v}.

climate : town island country
= hot summers and mild winters | long and snowy winters | rain for most of the year | dry and windy weather | warm nights and heavy storms
? What is the weather like in {e}?
? What climate does {e} have?
? climate of {e}
? Does it rain a lot in {e}?
? Is it cold in {e}?
*? What kind of weather should I expect in {e}?
? How warm does it get in {e}?
. {e} has {v}.
. The climate of {e} brings {v}.
. The weather in {e} means {v}.
. People in {e} are used to {v}.
*. Expect {v} when you go to {e}.
. {e} is known for {v}.

mayor : town
= {person}
? Who is the mayor of {e}?
? Who governs the town of {e}?
? mayor of {e}
? Who leads the city council of {e}?
*? What is the name of the mayor in {e}?
? Who runs the town hall of {e}?
. The mayor of {e} is {v}.
. {v} is the mayor of {e}.
. {v} was elected mayor of {e}.
. The town hall of {e} is led by {v}.
*. Voters in {e} chose {v} as their mayor.
. {v} heads the council of {e}.
""")
