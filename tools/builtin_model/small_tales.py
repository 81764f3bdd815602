# tools/builtin_model/small_tales.py -- the short forms: why-tales, the compiler's dreams, letters, rumours.
"""Fields as in plots.py; {X} is a topic that the prompt names and that nobody in the bay may ever
have heard of."""

# Why-tales: question, how it was before, the trouble, the bargain, how it is now.
WHYS = [
    dict(q="Why is the sea salty?", before=["Long ago the sea was as sweet as lemonade.",
                                            "In the beginning the sea tasted of nothing at all."],
         trouble=["Children drank it, and the beach moved a little every day.",
                  "The fish had terrible toothache."],
         deal=["{H} poured in one cup of salt and then forgot to stop.",
               "{H} traded all its sugar for all the salt in the market."],
         now=["So it is salty to this day, and nobody drinks it twice.",
              "That is why the sea is salty, and why the fish have such good teeth."]),
    dict(q="Why does the crab walk sideways?",
         before=["Long ago the crab walked straight ahead like everybody else.",
                 "The first crab was always in a hurry."],
         trouble=["It walked into walls, because it was always looking at the sea.",
                  "It never saw who was walking beside it, and it was lonely."],
         deal=["{H} taught it to walk with one eye on the water and one eye on its friends.",
               "{H} told it, \"Go around,\" and the crab has been going around ever since."],
         now=["That is why the crab walks sideways, and it has not missed a sunset since.",
              "So it goes sideways, and it always knows who is beside it."]),
    dict(q="Why does the lighthouse blink?", before=["Long ago the lighthouse kept its eye open all night.",
                                                     "The first lighthouse stared at everybody."],
         trouble=["It grew so tired that it fell asleep in the middle of a storm.",
                  "The ships thought that it was rude."],
         deal=["{H} climbed up and told it a secret. \"You may close your eye, if you open it again.\"",
               "{H} promised to watch the sea every other second."],
         now=["That is why the lighthouse blinks. It is sharing the work.",
              "So it blinks, and the ships blink back."]),
    dict(q="Why does the moon change its shape?", before=["Long ago the moon was always round.",
                                                          "The young moon was as round as a plate."],
         trouble=["Everybody was hungry, and it looked very much like cheese.",
                  "It was so proud of its face that it never slept."],
         deal=["{H} took a small bite and promised to put it back.",
               "{H} knitted it a dark blanket, and every night the moon pulls it up a little more."],
         now=["That is why the moon changes, and why it always comes back.",
              "So once a month it is gone, and then it is sorry, and then it is round."]),
    dict(q="Why do gulls shout?", before=["Long ago the gulls spoke in a whisper.",
                                          "The first gull had the softest voice in the bay."],
         trouble=["Nobody could hear them over the waves, and all their news was lost.",
                  "They said something very important once, and everybody said, \"What?\""],
         deal=["{H} told them to say it again, louder, and they never stopped.",
               "{H} lent them the voice of a foghorn and has not got it back."],
         now=["That is why gulls shout. They are still telling the same piece of news.",
              "So they shout, and nobody says \"What?\" any more."]),
    dict(q="Why is the night dark?", before=["Long ago the night was as bright as the day.",
                                             "In the old days nobody turned off the sky."],
         trouble=["Nobody could find the stars, and nobody could find sleep.",
                  "The small lights had nothing to do, and they were sad."],
         deal=["{H} hung up a big blue coat with holes in it.",
               "{H} asked the sun to lie down for an hour, and it liked it."],
         now=["That is why the night is dark, so that even a small lamp can matter.",
              "So the night is dark, and the stars are only the holes in the coat."]),
    dict(q="Why does a snail carry its house?", before=["Long ago the snail lived in a house that stood "
                                                        "still.",
                                                        "The first snail had a very fine house on a hill."],
         trouble=["Every time it went out, it came home a week late for supper.",
                  "It was so homesick that it could not go farther than the gate."],
         deal=["{H} said, \"Then take it with you,\" and helped to lift it.",
               "{H} tied the house to the snail with a small silver string."],
         now=["That is why the snail carries its house. It is never late and never away.",
              "So now wherever the snail is, it is home."]),
    dict(q="Why does the kettle sing?", before=["Long ago the kettle boiled in silence.",
                                                "The first kettle was very shy."],
         trouble=["Nobody knew when the tea was ready, and it was always cold.",
                  "It was full of warm words and could not let them out."],
         deal=["{H} taught it one note, the highest one.",
               "{H} made a small hole for the words to come out."],
         now=["That is why the kettle sings, and it still knows only the one note.",
              "So it sings, and somebody always comes running, and that is all it ever wanted."]),
    dict(q="Why is the whale so big?", before=["Long ago the whale was no longer than a spoon.",
                                               "The first whale lived in a teacup."],
         trouble=["But it remembered everything, and it had to keep it all somewhere.",
                  "But its song was too large for it, and it hurt."],
         deal=["{H} said, \"Grow until it fits,\" and the whale did as it was told.",
               "{H} gave it the whole sea to keep its memories in."],
         now=["That is why the whale is so big. It is mostly songs.",
              "So it grew and grew, and it is still polite to teacups."]),
    dict(q="Why do waves come back?", before=["Long ago the waves went out and stayed out.",
                                              "The first wave left and never wrote."],
         trouble=["The beach was lonely and began to follow them.", "The sea grew shorter every day."],
         deal=["{H} tied each wave to the sand with a long thin string.",
               "{H} called after them that they had forgotten something, and they had to come back and "
               "look."],
         now=["That is why the waves come back, and they are still looking.",
              "So they come back, every one, and the beach says good evening."]),
]

# The compiler's dreams: thing in the program, what it was in the dream, its complaint, the cure,
# what was found in the morning.
DREAMS = [
    dict(thing="a loop", saw=["a ring of crabs that danced around the harbor and could not stop",
                              "a horse that ran around the lighthouse all night"],
         says=["Nobody told us when we are done", "I have passed this bell a million times"],
         cure=["{H} gave them a bell to ring at the end",
               "{H} opened the ring and laid it down as a straight road"],
         found=["a loop that did the same thing twice, and {he} took one of them out",
                "two loops that were really one, and {he} folded them together"]),
    dict(thing="a zero", saw=["a round white egg that sat on a chair and waited",
                              "a small lake with nobody in it"],
         says=["Everybody multiplies me and nobody stays", "I am nothing, but I take up so much room"],
         cure=["{H} sat down beside it and left it out of the sum",
               "{H} told it that somebody has to be the beginning"],
         found=["a thousand times zero, and {he} did not do it any more",
                "that half of the numbers were nothing, and {he} let them sleep"]),
    dict(thing="a pointer", saw=["a sailor who pointed at an island that was not there",
                                 "a signpost with no road"],
         says=["It was there yesterday", "I only say where, and I am never told why"],
         cure=["{H} built the island exactly where the finger pointed",
               "{H} turned the finger gently toward home"],
         found=["an address where nobody lived, and {he} moved a number in",
                "a road that went around three corners, and {he} made it straight"]),
    dict(thing="a semicolon", saw=["a tiny fish that stood at the end of every street",
                                   "a mouse with an umbrella"],
         says=["Without me they would never stop talking",
               "I hold the door so that the next one can come in"],
         cure=["{H} thanked it, and it grew a little taller",
               "{H} gave it a chair, because it had been standing for years"],
         found=["the one that was missing, in line forty",
                "that all of them were in their places, and {he} said good morning to each one"]),
    dict(thing="a register", saw=["a very small boat with a very important hat in it",
                                  "a coat hook that everybody wanted"],
         says=["There are only sixteen of us, and everybody wants to sit here",
               "I would hold more if I had more hands"],
         cure=["{H} asked the numbers to take turns", "{H} let the heavy ones wait on the shore"],
         found=["a number that had waited in memory for no reason, and {he} gave it a seat",
                "that one number was asked for all the time, and {he} kept it close"]),
    dict(thing="a cache", saw=["a squirrel that hid everything under the pillow",
                               "a pantry with just enough bread for today"],
         says=["I keep what you will ask for next, if you ask for it soon",
               "Come closer and do not walk so far"],
         cure=["{H} brought the work to the pantry in small baskets",
               "{H} promised to use each thing twice before putting it back"],
         found=["a long walk to memory, and {he} cut it into short ones",
                "that the same number was fetched nine times, and {he} fetched it once"]),
    dict(thing="two threads", many=True, saw=["two otters who carried one plank and walked in two directions",
                                              "two spiders who wove the same web"],
         says=["After you", "I was here first, or I will be"],
         cure=["{H} gave each of them a half and drew a line",
               "{H} gave them a bell, and they waited for it together"],
         found=["two workers at one door, and {he} made a second door",
                "that they had been waiting for each other since Monday"]),
    dict(thing="a matrix", saw=["a field of lamps that lit each other in rows and columns",
                                "a hotel with a number in every bed"],
         says=["We can all work at once, if somebody lays the table",
               "Take us in tiles, we are too many to hug"],
         cure=["{H} cut the field into small squares and walked through them one by one",
               "{H} turned the columns around until they could see each other"],
         found=["that the rows were read the wrong way around, and {he} turned them",
                "a square that fit exactly in the pantry, and {he} used it everywhere"]),
    dict(thing="a branch", saw=["a road that split in two at a sleepy owl", "a river that could not decide"],
         says=["I always ask, and the answer is always left", "If I guess wrong, everybody has to walk back"],
         cure=["{H} asked the owl once, at the beginning, and wrote it down",
               "{H} took both roads and kept the better one"],
         found=["a question that always had the same answer, and {he} stopped asking",
                "an old if that nobody had ever said no to"]),
    dict(thing="a memory leak", saw=["a bucket that was always full and always sad",
                                     "a guest who never went home"],
         says=["Nobody ever told me that I may go", "I was only asked to hold this for a second"],
         cure=["{H} said, \"Thank you, you are free,\" and the water ran back into the sea",
               "{H} opened the window and waved"],
         found=["the line that forgot to say goodbye, and {he} said it",
                "nine old numbers asleep behind the door, and {he} let them out"]),
]
DREAM_RESULTS = ["After that the program finished before the kettle did.",
                 "After that the program was so quick that the lamp turned twice as gladly.",
                 "After that the program ran in half the time and used half the words.",
                 "After that the answer was the same, but it came like a bird."]
DREAM_TALK = [("How did you know", "I dreamed it, and then I measured it"),
              ("Is it still right", "I checked it against the slow one, number by number"),
              ("Do you sleep in there", "Only between two numbers"),
              ("Was it a good dream", "It was a short one, and that is the best kind")]

# Letters: to whom, openings, bodies, wishes, closings.
LETTER_TO = [("Moon", "the moon"), ("Sea", "the sea"), ("Otto", "Otto"), ("Ada", "Ada"), ("Lumi", "Lumi"),
             ("North Wind", "the north wind"),
             ("Whale", "the whale"), ("Captain", "the captain"), ("Future", "the future"),
             ("Lighthouse", "the lighthouse")]
LETTER_NEWS = ["The tide came in twice today, and both times it was beautiful.",
               "I have learned to make soup out of almost nothing.",
               "It rained all week, and I have named every drop.",
               "There is a new boat in the harbor, and it is called Maybe.",
               "Yesterday I lost a button and found a friend.",
               "The gulls have elected a king, and it is not one of them.",
               "I tried to be brave on Monday, and it worked until noon.",
               "My roof has a hole, and a star fits in it exactly.",
               "The café has a cake with your name on it, more or less.",
               "I counted the steps again, and there is one more than before."]
LETTER_ASK = ["Do you ever get tired of being so far away?", "Have you seen my other sock?",
              "Is it true that you can hear us?",
              "What do you do when nobody is looking?", "Would you like to come to supper?",
              "Who turns you off in the morning?",
              "Are you happy with how it all turned out?", "Could you shine a little to the left on Friday?"]
LETTER_GIFT = ["I am sending you {a_food}. Please forgive the bite.",
               "I put {a_tool} in with this letter, in case you need one.",
               "I would send you the smell of the harbor, but it did not fit.",
               "Inside you will find one warm afternoon. Open it slowly."]
LETTER_CLOSE = ["Your friend", "With salt and love", "Yours until the tide goes out",
                "Warmly and a little wet", "Always"]

# Small talk: what somebody says, and what the model answers. {k1} and {k2} are kinds with their article.
TALK = [
    (["Hello.", "Hi.", "Hello!", "Good evening.", "Hey.", "Good morning."],
     ["Good evening. The tide is in and the kettle is on. Would you like a tale about {k1} or about {k2}?",
      "Hello. Mind the step, it is wet. I have tales about {k1}, about {k2}, and about the sea.",
      "Hello, hello. Sit down by the lamp. Ask me about Lumi, or about {k1}."]),
    (["Who are you?", "What are you?", "What is your name?", "Are you alive?", "Are you a robot?",
      "Tell me about yourself."],
     ["I am a very small model. I live in Lantern Bay, in less than a megabyte, and it is cozy. I know tales "
      "about {k1} and {k2}.",
      "I am half a million numbers that dream of the sea. Some of the numbers know {k1}, and one of them "
      "knows {k2}.",
      "I am a box of numbers with a window. From the window I can see {k1}, {k2}, and a lighthouse."]),
    (["What can you do?", "Help.", "Help me.", "What do you know?", "What can I ask you?"],
     ["I can tell you a tale about {k1} or {k2}. I can tell you why the sea is salty. I cannot tell you the "
      "time.",
      "Ask me for a story, a poem, a letter, or a joke. Everything I know has salt on it.",
      "I know one bay, and I know it well. Try \"Tell me about Otto.\" or \"Write a poem about {k1}.\""]),
    (["Good night.", "Goodbye.", "Bye.", "Sleep well."],
     ["Good night. The lamp stays on, and {k1} is watching the stairs.",
      "Goodbye. Come back with the tide, and bring {k2} with you.",
      "Sleep well. If you dream of {k1}, be polite."]),
    (["Thank you.", "Thanks.", "That was nice.", "I liked that story."],
     ["You are welcome. I only put one word after the other, and {k1} did the rest.",
      "Thank you for listening. A tale without ears is only {k2} talking to the wind.",
      "I will tell {k1}, who will be proud all week."]),
    (["Are you sad?", "How are you?", "Are you happy?", "How do you feel?"],
     ["A little wet, but very well. {K1} came by with tea.",
      "I feel like {k1} on a Sunday, slow and full of biscuits.",
      "Better, now that you have asked. {K2} never asks."]),
]
JOKES = ["Why did {k1} cross the bay? To get to the other tide.",
         "What do you call {k1} on a Tuesday? By name, if you are polite.",
         "How many gulls does it take to light a lamp? None, but they will all tell you how.",
         "Why is the sea never late? It comes in waves.",
         "Why did the compiler go to bed? It had reached the end of the line.",
         "What did the loop say to the compiler? I will be back. I will be back. I will be back.",
         "Why do snails never lose an argument? They sleep on it.",
         "Knock, knock. Who is there? {K1}. {K1} who? That is all, I was only lonely.",
         "What did the tide say to the sand? Nothing, it just waved.",
         "Why was the lighthouse so bright? It had been to night school."]
JOKE_AFTER = ["{H} {the} laughed until the gulls looked down.",
              "{H} {the} told me that one, and then told it again.",
              "{H} {the} did not laugh, but the kettle did.",
              "It is funnier under water, says {H} {the}."]

# Couplets of poems, by their place in the poem. All of them are about {H}, who is {ak}.
POEM_START = [("There was {ak} who lived by the sea", "and drank every evening a thimble of tea."),
              ("{H} was {ak} with sand in the bed", "and nine little tunes going round in the head."),
              ("When the lamp is lit and the boats are in,", "{ak} named {H} plays the violin."),
              ("{K} by the name of {H} went down", "to buy a blue button in Lantern Town."),
              ("{H} was {ak}, and {H} was late,", "and the moon was leaning on the gate.")]
POEM_MIDDLE = [("The fog came by in its big gray coat", "and asked for a ride in the rowing boat."),
               ("{He} counted the stars and got to ten", "and yawned and began to count again."),
               ("The whale sang low and the gulls sang high", "and the kettle hummed on the stove nearby."),
               ("{He} wrote to the moon on a paper sail,", "and the wind agreed to deliver the mail."),
               ("The clock in the hall said, \"Half past three,\"", "but nobody asked, so it said it to me."),
               ("A crab in a crown said, \"Who goes there?\"", "and offered {him} half of a very soft pear."),
               ("{He} folded the dark like an old blue sheet", "and tucked it in at the lighthouse's feet."),
               ("The waves said little, the sand said less,", "and the answer to everything else was yes.")]
POEM_END = [("So good night, {H}, and good night, sea,", "and good night, whoever is reading me."),
            ("And if you are quiet, and if you are near,", "the tide will whisper it into your ear."),
            ("And that is all, and the rest is foam,", "and the long slow light that brings us home."),
            ("The lamp goes around and the night is deep,", "and even the numbers have gone to sleep.")]
# A poem that was asked for one of these holds its couplet.
POEM_SUBJECTS = {
    "the sea": ("The sea said a thing that it always says,",
                "and it takes all nights, and it takes all days."),
    "the moon": ("The moon put a ladder down into the bay", "and climbed in her slippers the other way."),
    "the night": ("The night came in on its soft dark feet", "and sat by the stove on the captain's seat."),
    "Lantern Bay": ("In Lantern Bay, where the houses lean,", "the doors are blue and the waves are green."),
    "the lighthouse": ("The lighthouse stood in its striped pajamas",
                       "and dreamed of the hills and a herd of llamas."),
    "love": ("Love is a lamp that is left in the hall", "for somebody late, or for no one at all."),
    "the rain": ("The rain played a tune on the roof with its toes",
                 "and ran down the gutter and into the rose."),
    "sleep": ("Sleep is a boat with a quilt for a sail", "and a captain as slow and as kind as a snail."),
}

# What people in the bay say about a topic. None of it depends on whether the topic is one thing or many.
TOPIC_START = ["Nobody in Lantern Bay knew much about {X}.",
               "The old sailors of Lantern Bay never spoke of {X} before supper.",
               "On the day when {X} came to Lantern Bay, the bell rang by itself.",
               "In Lantern Bay there is a small museum of {X}, open on Tuesdays.",
               "One evening {H} found a note on the pier. It said, \"Beware of {X}.\""]
TOPIC_RUMOR = ["thought that {X} could be heard at night in an empty shell",
               "had once traded a boot for {X} and did not regret it",
               "said that {X} tasted best with a little salt",
               "believed that the moon had invented {X} on a slow evening",
               "had read about {X} in a book with no last page", "swore that {X} had looked right back",
               "said that {X} was nothing to be afraid of, and hid under the table",
               "had dreamed about {X} three nights in a row",
               "wrote a long poem about {X}, and it even rhymed",
               "had an uncle who had seen {X} from far away"]
TOPIC_QUEST = ["So {H} went to look for {X} at {P}.", "So {H} rowed out to {P} to ask about {X}.",
               "\"I will find out,\" said {H}, and {he} set out for {P} to see {X}."]
TOPIC_END = ["{He} came back after three days with sand in {his} hair. \"Well?\" said {F}. \"It is a matter "
             "of taste,\" said {H}.",
             "{He} looked and looked, and at last {he} understood {X} completely. Then {he} sneezed and "
             "forgot.",
             "It was all true, except for the part with the boot.",
             "There {he} found a small sign. It said, \"{X}, back in five minutes.\" {He} is still waiting, "
             "and {he} says it is very nice there.",
             "\"So that is {X},\" said {H}. \"I had thought it would be louder.\"",
             "In the end {H} and {F} made some {X} themselves, out of driftwood and hope."]
TOPIC_MORAL = ["And that is all that anybody knows about {X}.", "If you ever meet {X}, be polite.",
               "Since then {F} keeps a chair free for {X}.",
               "The museum would like to know if you have any {X} at home."]

# Topics for such prompts: everyday and far-away words. Others are made of syllables, so that the
# model learns to copy whatever word it is given.
TOPICS = """bananas|pizza|cats|dogs|music|the weather|mathematics|snow|elephants|dragons|robots|computers
the future|love|time|soup|shoes|trains|the internet|coffee|mountains|Paris|London|Tokyo|rabbits|tigers
a red balloon|a broken umbrella|socks|cheese|space|black holes|gravity|poetry|Mondays|homework|football
the king|a penguin|penguins|volcanoes|ice cream|spaghetti|magic|money|the color red|numbers|prime numbers
quantum physics|graphics cards|tensors|matrices|C++|Python|Rust|Linux|bees|butterflies|the desert|a castle
ghosts|pirates|treasure|airplanes|bicycles|elevators|mirrors|trees|flowers|autumn|winter|chess|breakfast|lunch
sleep|dreams|history|grammar|spoons|a spoon|giraffes|kangaroos|monkeys|bears|wolves|horses|frogs|ants|spiders
lemonade|chocolate|pancakes|potatoes|tomatoes|onions|garlic|bread|violins|drums|pianos|opera|painting
photographs|telephones|television|newspapers|hammers|nails|ladders|windows|doors|keys|umbrellas|the alphabet
the letter Q|zebras|yaks|xylophones|jazz|quiet|happiness|courage|friendship|silence|nothing|everything|you
yourself|me"""
TOPICS = TOPICS.replace("\n", "|").split("|")
SYLLABLES = """ba be bi bo bu ka ke ki ko ku da de di do du fa fe fi fo ga ge go gu la le li lo lu ma me mi mo
mu na ne ni no nu pa pe pi po ra re ri ro ru sa se si so su ta te ti to tu va ve vi vo wa we wi
wo za ze zo xa qui chi sho thra blo gri ster mp nd rk lt ing er on um ax ix
""".split()
