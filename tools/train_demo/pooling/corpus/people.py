# ruff: noqa: E501 (rows of tables)
"""What is asked and told about people and what they make."""

from __future__ import annotations

from .relations import relations

PEOPLE = relations("""
birth : person
= in {year} | on {small} {month} {year} | in {month} {year}
? When was {e} born?
? What is the birth date of {e}?
? In what year was {e} born?
? {e} date of birth
? How old is {e}?
*? When is the birthday of {e}?
? In which year did {e} come into the world?
. {e} was born {v}.
. {e} came into the world {v}.
. The birth of {e} was {v}.
*. Records say that the parents of {e} had their child {v}.
. The life of {e} began {v}.

birthplace : person
= {town} | a village near {town} | {town} in {country}
? Where was {e} born?
? What is the birthplace of {e}?
? birthplace of {e}
? Where does {e} come from?
? In which town was {e} born?
? What is the home town of {e}?
*? From which place is {e}?
. {e} was born in {v}.
. {e} comes from {v}.
. The birthplace of {e} is {v}.
. {e} was born and raised in {v}.
*. {v} is the home town of {e}.
. {e} is a native of {v}.

death : person
= in {year} | in {month} {year} | at the age of {small}
? When did {e} die?
? In which year did {e} die?
? date of death of {e}
? When did {e} pass away?
? At what time did the life of {e} end?
*? Until when did {e} live?
. {e} died {v}.
. {e} passed away {v}.
. The death of {e} came {v}.
. {e} lost the fight against an illness and died {v}.
*. The life of {e} ended {v}.
. Friends mourned {e}, who was buried {v}.

job : person
= a {job} | a well-known {job} | a {job} and a {job} | a retired {job}
? What does {e} do for a living?
? What is the profession of {e}?
? profession of {e}
? What is {e}'s job?
? What kind of work does {e} do?
*? How does {e} earn money?
? What is the occupation of {e}?
. {e} is {v}.
. {e} works as {v}.
. {e} earns a living as {v}.
. By profession, {e} is {v}.
*. {e} is employed as {v}.
. The occupation of {e} is that of {v}.

spouse : person
= {person} | the {job} {person}
? Who is {e} married to?
? Who is the wife or husband of {e}?
? Who did {e} marry?
? spouse of {e}
*? With whom did {e} have a wedding?
? What is the name of {e}'s partner?
. {e} is married to {v}.
. {e} married {v}.
. {v} and {e} are husband and wife.
. {e} and {v} have been married for {small} years.
*. {e} held a wedding with {v}.
. {v} is the partner of {e} in life.

school : person
= the University of {town} | the {name} School of Arts | the college of {town}
? Where did {e} study?
? Which university did {e} attend?
? {e} education
? Where did {e} go to school?
? At what college was {e} a student?
*? From which university did {e} graduate?
. {e} studied at {v}.
. {e} went to {v}.
. {e} attended {v}.
. {e} holds a degree from {v}.
*. {e} graduated from {v}.
. {v} was where {e} spent the student years.

residence : person
= a small house in {town} | {town} | an apartment in {town} | a farm outside {town}
? Where does {e} live?
? What is the address of {e}?
? In which city does {e} live now?
? residence of {e}
*? Where is the home of {e}?
? What place does {e} live in today?
. {e} lives in {v}.
. {e} now lives in {v}.
. The home of {e} is {v}.
. {e} moved to {v} and stayed.
*. {e} resides in {v}.
. {e} has settled in {v}.

invention : person
= the {name} engine | a folding {thing} | the first electric {thing} | a new kind of {thing}
? What did {e} invent?
? What is {e} famous for inventing?
? invention of {e}
? Which thing was invented by {e}?
? What device do we owe to {e}?
*? Which invention made {e} known?
. {e} invented {v}.
. {v} was invented by {e}.
. {e} is the inventor of {v}.
. {e} holds the patent for {v}.
*. We owe {v} to {e}.
. {e} came up with the idea of {v}.

award : person film book
= the {name} Prize | the Golden {thing} award | the medal of {town} | the {name} Award for courage
? Which prize did {e} win?
? What award did {e} receive?
? awards of {e}
? What was {e} honoured with?
*? Which medal was given to {e}?
? What recognition did {e} get?
. {e} won {v}.
. {e} received {v}.
. {v} went to {e}.
. {e} was awarded {v}.
*. The jury gave {v} to {e}.
. {e} was honoured with {v}.

hobby : person
= {pastime} | {pastime} and {pastime}
? What does {e} do in the free time?
? What are the hobbies of {e}?
? hobby of {e}
? What does {e} like to do on weekends?
*? How does {e} spend leisure hours?
? Which pastime does {e} enjoy?
. {e} enjoys {v}.
. In the free time {e} likes {v}.
. The hobby of {e} is {v}.
. On weekends {e} spends hours on {v}.
*. {e} relaxes with {v}.
. {e} is fond of {v}.

children : person
= {count} children | {count} sons | {count} daughters and a son | no children
? How many children does {e} have?
? Does {e} have kids?
? number of children of {e}
? Is {e} a parent?
*? How many sons and daughters has {e}?
? How large is the family of {e}?
. {e} has {v}.
. {e} is the parent of {v}.
. {e} raised {v}.
*. There are {v} in the family of {e}.
. {e} brought up {v}.

author : book song poem
= {person} | {person} and {person}
? Who wrote {e}?
? Who is the author of {e}?
? author of {e}
? By whom was {e} written?
*? Which writer created {e}?
? Whose work is {e}?
. {e} was written by {v}.
. The author of {e} is {v}.
. {v} wrote {e}.
. {v} is the author of {e}.
*. {e} comes from the pen of {v}.
. The writer {v} created {e}.

published : book song album
= in {year} | in {month} {year} | in the autumn of {year}
? When was {e} published?
? When did {e} come out?
? release date of {e}
? In which year did {e} appear?
? How long has {e} been available?
*? What year was {e} brought out?
. {e} was published {v}.
. {e} came out {v}.
. {e} appeared {v}.
. {e} was released {v}.
*. {e} reached the shops {v}.
. Readers and listeners first got {e} {v}.

pages : book
= {number} pages | {small} chapters | {number} pages in {count} parts
? How many pages does {e} have?
? How thick is {e}?
? {e} page count
? How long is the book {e}?
*? What is the number of pages in {e}?
? How much is there to read in {e}?
. {e} has {v}.
. {e} is a book of {v}.
. {e} runs to {v}.
*. {e} fills {v}.
. Readers of {e} go through {v}.

plot : book film game
= a {job} who searches for a lost {thing} | two friends who cross {country} on foot | a family that moves to {town} | a war over a {thing} | a {job} who falls in love with a {job}
? What is {e} about?
? What happens in {e}?
? plot of {e}
? What is the story of {e}?
*? Which story does {e} tell?
? What is the subject of {e}?
. {e} is about {v}.
. {e} tells the story of {v}.
. The plot of {e} follows {v}.
. In {e} we meet {v}.
*. {e} deals with {v}.
. At the centre of {e} is {v}.

director : film series
= {person}
? Who directed {e}?
? Who is the director of {e}?
? director of {e}
? Who made the film {e}?
? Under whose direction was {e} shot?
*? Which director made {e}?
. {e} was directed by {v}.
. The director of {e} is {v}.
. {v} directed {e}.
. {v} shot {e} in {small} weeks.
*. {v} sat in the director's chair for {e}.
. {e} was filmed by {v}.

star : film series
= {person} | {person} and {person}
? Who plays the main role in {e}?
? Who stars in {e}?
? cast of {e}
? Which actor is in {e}?
*? Who is the leading actor of {e}?
? Who can be seen on screen in {e}?
. {v} plays the main role in {e}.
. {e} stars {v}.
. The cast of {e} includes {v}.
. In {e}, the hero is played by {v}.
*. The lead in {e} went to {v}.
. {v} acts in {e}.

singer : song album band
= {person} | {person} with a choir from {town}
? Who sings {e}?
? Who is the singer of {e}?
? singer of {e}
? Whose voice is heard in {e}?
? Which artist performs {e}?
*? Who recorded the vocals of {e}?
. {e} is sung by {v}.
. The singer of {e} is {v}.
. {v} sings {e}.
. The voice in {e} is that of {v}.
*. {e} is performed by {v}.
. {v} recorded the vocals for {e}.
""")
