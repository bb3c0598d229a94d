"""Everyday questions without a name in them, and texts that answer each."""

from __future__ import annotations

from .relations import relations

ANSWERS = relations("""
password : -
= {small} minutes | {count} hours
? How do I reset my password?
? I forgot my password
? I can't log in because I lost my password
? password forgotten what now
*? How can I get a new password?
? What should I do when I do not remember my password?
. To reset your password, click the link on the login page; it is valid for {v}.
. If you forgot your password, we send you an email with a link. The link works for {v}.
. A new password can be set under account settings within {v}.
*. Choose "Forgot password" when you sign in, and pick a new one within {v}.

refund : -
= {small} days | {count} weeks
? How do I get my money back?
? Can I get a refund?
? When will I receive my refund?
? refund policy
*? How long does it take until the money is back on my card?
? Will you pay me back if I am not satisfied?
. Refunds are paid within {v} to the card that you used.
. We give you your money back within {v} after the goods have arrived here.
. You receive a full refund if you cancel within {v}.
*. The amount is returned to your bank account in {v}.

returns : -
= {small} days | {count} weeks
? How can I return an item?
? I want to send something back
? What is the return policy?
? returning goods
*? How do I give back a product that I do not like?
. Items can be returned within {v} if they are unused; print the label and bring the parcel to the post.
. To send something back, put it in its box and use the return label within {v}.
*. Unused products may be handed back at any of our shops within {v}.

shipping : -
= {small} days | {count} working days
? How long does shipping take?
? When will my order arrive?
? delivery time
? Where is my parcel?
*? How many days until the package is here?
. Orders are delivered within {v}.
. Shipping takes {v}; you get a tracking number by email.
. Your parcel leaves our warehouse on the same day and arrives after {v}.
*. The courier brings the package in {v}.

cancel : -
= {small} days before the month ends | any time with {count} weeks notice
? How do I cancel my subscription?
? I want to end my membership
? cancel subscription
? How can I stop paying every month?
*? How do I terminate my contract?
. You can cancel your subscription {v}.
. To end your membership, open the billing page; you may do so {v}.
*. The contract is terminated in your profile, {v}.

payment : -
= credit card and bank transfer | credit card, cash or cheque | bank transfer only
? Which payment methods do you accept?
? Can I pay by credit card?
? how can I pay
? Do you take cash?
*? What ways of paying are there?
. We accept {v}.
. You can pay by {v}.
*. Bills are settled by {v}.

address : -
= in your profile | under account settings | on the page of the order
? How do I change my address?
? I moved to a new house, how do I update my address?
? change delivery address
*? Where can I enter my new street and city?
. You can change your address {v}.
. If you moved, enter the new street and city {v}.
*. A new place of residence is entered {v}.

wifi : -
= {name}{small} | the number of your room
? What is the wifi password?
? How do I connect to the internet here?
? wifi access
? Is there wireless internet?
*? How do I get online in this building?
. The wifi network is free, and its password is {v}.
. To connect to the internet, choose the guest network and type {v}.
*. Guests get online with the code {v}.

breakfast : -
= from {hour} to {hour2} | between {hour} and {hour2}
? When is breakfast served?
? Is breakfast included?
? breakfast time
? Where do I eat in the morning?
*? At what time can I have my morning meal?
. Breakfast is served {v} in the dining room.
. The breakfast buffet is included and open {v}.
*. In the morning you find coffee, bread and eggs in the hall {v}.

parking : -
= {small} euros a day | free for guests | {small} dollars an hour
? Where can I park my car?
? Is there parking?
? parking costs
? How much is the car park?
*? Can I leave my vehicle near the entrance?
. There is a car park behind the building; it is {v}.
. You can park your car in the garage, {v}.
*. Vehicles may stand in the yard, {v}.

pets : -
= {small} euros a night | no extra charge
? Are pets allowed?
? Can I bring my dog?
? dogs allowed
? May I take my cat with me?
*? Do you welcome animals?
. Pets are welcome, for {v}.
. You may bring your dog or cat, at {v}.
*. Four-legged guests can stay, at {v}.

allergy : -
= nuts and milk | eggs | gluten
? Do you have food for people with allergies?
? Is this free of gluten?
? allergens
? Are there nuts in it?
*? What should people who react to certain foods know?
. This product may contain traces of {v}.
. People with allergies should know that it contains {v}.
*. Those who react to {v} should not eat it.

headache : -
= a glass of water and rest | a walk in fresh air | a tablet and a dark room
? What helps against a headache?
? My head hurts, what can I do?
? headache cure
*? How do I get rid of pain in my head?
. Against a headache, try {v}.
. If your head hurts, {v} may help.
*. Pain in the head often goes away after {v}.

sleep : -
= no screens before bed | a cool and dark room | going to bed at the same hour
? How can I sleep better?
? I cannot fall asleep at night
? tips for better sleep
*? What do I do when I lie awake for hours?
. For better sleep, try {v}.
. People who cannot fall asleep should think of {v}.
*. Nights become more restful with {v}.

bread : -
= {small} minutes | {count} hours
? How do I bake bread?
? recipe for bread
? How long does dough have to rest?
*? What is the way to make a loaf at home?
. To bake bread, mix flour, water, salt and yeast, let the dough rest for {v}, and put it in a hot oven.
. Bread dough has to rise for {v} before it is baked.
*. A loaf at home needs flour, yeast and patience: let it rise for {v}.

tyre : -
= {small} minutes | a little practice
? How do I fix a flat tyre?
? My bicycle has a flat tire
? repair a puncture
*? What do I do when air leaks from the wheel of my bike?
. To fix a flat tyre, take off the wheel, find the hole in the tube and glue a patch on it; it takes {v}.
. A flat tire on a bicycle is repaired with a patch and {v}.
*. When a wheel has lost its air, look for the hole under water and seal it, with {v}.

plants : -
= twice a week | every morning
? Why do the leaves of my plant turn yellow?
? My plant is dying
? yellow leaves
*? What is wrong when a houseplant loses its green?
. Yellow leaves often mean too much water; do not water more than {v}.
. When the leaves of a plant turn yellow, give it light and water it {v}.
*. A houseplant that loses its green wants more light and water {v}.

money : -
= a tenth of your income | {small} dollars a week
? How can I save money?
? tips for saving money
? How do I spend less?
*? What can I do to have more left at the end of the month?
. To save money, write down what you spend and put aside {v}.
. Saving is easy when {v} goes to another account at once.
*. To have more left at the end of the month, lay {v} aside.

language_learning : -
= {small} minutes | {count} hours
? How do I learn a language quickly?
? best way to learn a foreign language
? How can I improve my English?
*? What helps when studying vocabulary?
. To learn a language, practise {v} every day and speak with people.
. A foreign language is learned best by reading and listening for {v} a day.
*. New vocabulary stays when you repeat it for {v}.

computer_slow : -
= {count} years | {small} programs
? Why is my computer so slow?
? My laptop is slow, what can I do?
? speed up computer
*? How do I make an old machine faster?
. A slow computer often has too many programs running; close some and restart it after {v}.
. If your laptop is slow, free some space on the disk and add memory; after {v} that is normal.
*. An old machine becomes faster with more memory, even after {v}.

printer : -
= {count} times | {small} seconds
? My printer does not print
? How do I fix a paper jam?
? printer not working
*? What can I do when no page comes out?
. If the printer does not print, switch it off for {v} and check the cable and the ink.
. A paper jam is cleared by opening the back of the printer; press the button {v}.
*. When no page comes out, look for stuck paper and restart it after {v}.

visa : -
= {small} days | {count} months
? Do I need a visa?
? How do I apply for a visa?
? visa requirements
*? Which papers must I have to enter the country?
. Visitors need a visa if they stay for more than {v}; apply at the embassy.
. To apply for a visa, fill in the form and bring your passport; it takes {v}.
*. To enter the country for more than {v} you must have a permit from the embassy.

luggage : -
= {small} kilograms | {small} pounds
? How much luggage can I take?
? baggage allowance
? How heavy may my suitcase be?
*? What may my bag weigh on the flight?
. Each passenger may take luggage of {v}.
. A suitcase may weigh up to {v}; heavier bags cost extra.
*. On the flight a bag must not exceed {v}.

emergency : -
= 112 | 911 | {number}
? What number do I call in an emergency?
? How do I call an ambulance?
? emergency number
*? Who do I ring when there is a fire or an accident?
. In an emergency call {v}; police, firemen and ambulance answer there.
. An ambulance comes when you dial {v}.
*. When there is a fire or an accident, ring {v} at once.

water_boil : -
= 100 degrees | {small} degrees
? At what temperature does water boil?
? boiling point of water
*? How hot does water get before it turns into steam?
. Water boils at {v} at sea level.
. The boiling point of water is {v}.
*. Water turns into steam at {v}.

moon : -
= {number} kilometres | {number} miles
? How far away is the moon?
? distance to the moon
*? How many kilometres lie between us and the moon?
. The moon is {v} away from the Earth.
. The distance between Earth and moon is {v}.
*. Between us and the moon lie {v}.

rainbow : -
= light and drops of water | sunlight that is bent in rain
? Why is there a rainbow?
? What causes a rainbow?
*? How do the colours in the sky after rain come about?
. A rainbow is made by {v}.
. The cause of a rainbow is {v}.
*. The colours in the sky after a shower come from {v}.

heart : -
= 60 to 100 times a minute | {small} times a minute
? How fast does the heart beat?
? normal heart rate
*? What pulse is usual for an adult?
. A normal heart beats {v}.
. The heart rate of an adult at rest is {v}.
*. A usual pulse is {v}.
""")
