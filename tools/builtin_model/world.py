# tools/builtin_model/world.py -- who lives in Lantern Bay: names, kinds of creature, places, food
# and weather.
"""Data of the story world. Everything here is plain text written for this project; grammar.py puts
it together."""

# Pronoun sets: subject, object, possessive, reflexive.
PRONOUNS = {
    "she": ("she", "her", "her", "herself"),
    "he": ("he", "him", "his", "himself"),
    "it": ("it", "it", "its", "itself"),
}

# Names for a character that is not one of the regular cast: invented ones besides these.
OTHER_NAMES = ["Robert", "Clara", "Felix", "Anna", "Leo", "Emma", "Max", "Rosa", "Karl", "Nora", "Ferdinand",
               "Greta", "Oscar", "Lucy"]

# A kind: the name and pronoun of the one who lives in Lantern Bay, noun, adjectives, where it can
# go, homes, habits (past tense), ways to speak, ways to move, skills, and a fear.
KINDS = {
    "lantern": dict(
        name="Lumi", gender="she", noun="lantern", adjs=["little", "brass", "brave", "curious"],
                    realms=["shore", "sea"],
        homes=["on a hook beside the lighthouse door", "in the window of the lighthouse kitchen"],
        habits=["told the moths to be careful", "practiced glowing until the moon was jealous",
                "kept the stairs company until morning", "lit the last page of every book"],
        voices=["glowed", "said brightly"], moves=["swung", "bobbed"], skills=["light"],
                    fear="being left on a shelf"),
    "keeper": dict(
        name="Otto", gender="he", noun="lighthouse keeper", adjs=["old", "patient", "sleepy", "kind"],
                   realms=["shore"],
        homes=["at the top of a striped lighthouse", "in a round room full of tide clocks"],
        habits=["counted the boats and wished each one good night",
                "climbed one hundred stairs with a pot of tea",
                "polished the great lamp until it could see its own face",
                "wrote the weather in a blue book"],
        voices=["chuckled", "said"], moves=["walked", "climbed"], skills=["tea", "knots"],
                   fear="an empty teapot"),
    "compiler": dict(
        name="Ada", gender="she", noun="compiler", adjs=["young", "careful", "dreamy", "tireless"],
                     realms=["shore"],
        homes=["in a warm machine under the lighthouse stairs",
               "in the quiet box that turned the lighthouse lamp"],
        habits=["folded long loops like clean laundry", "turned words into numbers and numbers into light",
                "read old programs and dreamed of shorter ones", "checked every answer twice before bed"],
        voices=["hummed", "said exactly"], moves=["rolled", "blinked along"], skills=["folding", "counting"],
        fear="a loop with no end"),
    "crab": dict(
        name="Bram", gender="he", noun="crab", adjs=["small", "polite", "stubborn", "red"],
                 realms=["shore", "sea"],
        homes=["under the third plank of the old pier", "in a teacup half buried in the sand"],
        habits=["lined up pebbles from small to large", "walked sideways to the market and sideways home",
                "knocked on every shell to see who was in"],
        voices=["clicked", "grumbled"], moves=["scuttled", "hurried sideways"], skills=["claws"],
                 fear="tall waves"),
    "octopus": dict(
        name="Opal", gender="she", noun="octopus", adjs=["shy", "clever", "tidy", "purple"], realms=["sea"],
        homes=["in a sunken piano", "in a blue jar at the bottom of the bay"],
        habits=["wrote eight letters at once", "juggled seashells and dropped only the ugly ones",
                "shook hands with everybody twice"],
        voices=["bubbled", "murmured"], moves=["glided", "drifted"], skills=["knots", "counting"],
                    fear="odd numbers"),
    "whale": dict(
        name="Walter", gender="he", noun="whale", adjs=["gentle", "enormous", "sleepy", "blue"],
                  realms=["sea"],
        homes=["in the deep water past Far Rock", "where the sea is too big for names"],
        habits=["hummed the tide in and hummed it out again", "told long stories to short fish",
                "carried the evening on a wide gray back"],
        voices=["rumbled", "sang"], moves=["swam", "rolled"], skills=["song", "strength"],
                  fear="being in the way"),
    "seal": dict(
        name="Mabel", gender="she", noun="seal", adjs=["round", "cheerful", "lazy", "spotted"],
                 realms=["shore", "sea"],
        homes=["on the flattest rock in the harbor", "behind the fish stall"],
        habits=["laughed at the same joke every morning", "clapped whenever the sun came up",
                "balanced a blue ball and a bad mood"],
        voices=["barked", "laughed"], moves=["slid", "wobbled"], skills=["jokes", "strength"],
                 fear="long speeches"),
    "otter": dict(
        name="Zoë", gender="she", noun="otter", adjs=["busy", "playful", "merry", "brown"],
                  realms=["shore", "sea"],
        homes=["in a raft of green kelp", "behind the café on the pier"],
        habits=["tied boats together so that they would not be lonely",
                "slid down the harbor wall and called it work",
                "kept a favorite stone in a secret pocket"],
        voices=["giggled", "chirped"], moves=["splashed", "skipped"], skills=["knots", "jokes"],
                  fear="a dry day"),
    "gull": dict(
        name="Gus", gender="he", noun="gull", adjs=["loud", "hungry", "proud", "white"],
                 realms=["shore", "sea"],
        homes=["on top of the weather vane", "in an old hat on the roof of the café"],
        habits=["stole one biscuit and gave half of it back", "shouted the news before it happened",
                "argued with the wind and sometimes won"],
        voices=["cried", "squawked"], moves=["flew", "flapped"], skills=["wings"], fear="polite silence"),
    "snail": dict(
        name="Barnaby", gender="he", noun="snail", adjs=["slow", "thoughtful", "tiny", "silver"],
                  realms=["shore"],
        homes=["inside the sundial", "on the sunny side of the garden wall"],
        habits=["wrote a long silver diary on the wall", "arrived at breakfast in time for supper",
                "thought about one thing all day"],
        voices=["whispered", "said slowly"], moves=["crept", "slid"], skills=["patience", "small"],
                  fear="the word quick"),
    "jellyfish": dict(
        name="Pearl", gender="she", noun="jellyfish", adjs=["pale", "quiet", "dreamy", "pink"],
                      realms=["sea"],
        homes=["in the calm green water under the pier", "in the slow part of the tide"],
        habits=["opened and closed like a thought", "glowed whenever somebody told the truth",
                "floated in circles and called it dancing"],
        voices=["whispered", "sighed"], moves=["floated", "drifted"], skills=["light", "patience"],
                      fear="sharp corners"),
    "turtle": dict(
        name="Tilda", gender="she", noun="turtle", adjs=["old", "wise", "calm", "green"],
                   realms=["shore", "sea"],
        homes=["in a bed of warm sand", "beside the oldest anchor in the bay"],
        habits=["remembered every birthday in the sea", "carried a small library under one shell",
                "waited for the right moment and then waited once more"],
        voices=["said slowly", "mumbled"], moves=["paddled", "plodded"], skills=["patience", "strength"],
                   fear="forgetting"),
    "mouse": dict(
        name="Pip", gender="he", noun="mouse", adjs=["tiny", "brave", "nervous", "gray"], realms=["shore"],
        homes=["in the pocket of an old raincoat", "behind the biscuit tin"],
        habits=["swept the lighthouse with one feather", "read the crumbs like a newspaper",
                "slept in a thimble with the door open"],
        voices=["squeaked", "said very softly"], moves=["ran", "tiptoed"], skills=["small", "patience"],
                  fear="large shoes"),
    "cat": dict(
        name="Juniper", gender="she", noun="harbor cat", adjs=["gray", "proud", "sleepy", "one-eyed"],
                realms=["shore"],
        homes=["on a coil of warm rope", "on the captain's best chair"],
        habits=["inspected every fish that came ashore", "pretended not to listen and heard everything",
                "slept in the shape of a question"],
        voices=["purred", "yawned"], moves=["strolled", "padded"], skills=["claws", "jokes"],
                fear="wet socks"),
    "clock": dict(
        name="Tock", gender="it", noun="tide clock", adjs=["tall", "serious", "wooden", "honest"],
                  realms=["shore"],
        homes=["in the hall of the lighthouse", "in the window of the salt shop"],
        habits=["counted the waves in groups of seven", "told the time only to people who asked nicely",
                "rang twelve times for lunch because it liked lunch"],
        voices=["ticked", "chimed"], moves=["ticked along", "marched"], skills=["counting"],
                  fear="Thursdays"),
    "kettle": dict(
        name="Nell", gender="she", noun="kettle", adjs=["copper", "warm", "dented", "cheerful"],
                   realms=["shore"],
        homes=["on the smallest stove in the harbor", "in the kitchen of the café"],
        habits=["sang one high note and bowed", "warmed the hands of every sailor",
                "boiled at the first sign of sadness"],
        voices=["whistled", "hissed kindly"], moves=["hopped", "clattered"], skills=["tea", "song"],
                   fear="cold mornings"),
    "cloud": dict(
        name="Puff", gender="it", noun="cloud", adjs=["small", "soft", "forgetful", "shy"],
                  realms=["shore", "sea"],
        homes=["just above the church bell", "in the quiet corner of the sky"],
        habits=["practiced being a sheep", "rained only on gardens that asked for it",
                "followed ships to learn their names"],
        voices=["sighed", "said softly"], moves=["drifted", "blew"], skills=["wings"], fear="high mountains"),
    "star": dict(
        name="Wren", gender="she", noun="fallen star", adjs=["small", "bright", "lost", "warm"],
                 realms=["shore", "sea"],
        homes=["in a jam jar on the harbor wall", "in the wet sand where it had landed"],
        habits=["counted its old neighbors every night", "told the fish what the sky tasted like",
                "winked at ships by mistake"],
        voices=["twinkled", "sang"], moves=["rolled", "floated"], skills=["light", "song"],
                 fear="being wished on twice"),
    "robot": dict(
        name="Button", gender="it", noun="robot", adjs=["rusty", "helpful", "small", "careful"],
                  realms=["shore"],
        homes=["in the shed behind the lighthouse", "in a crate marked Fragile"],
        habits=["swept the beach one grain at a time", "practiced smiling with a wrench",
                "oiled every gate in the harbor so that it could sing"],
        voices=["beeped", "said evenly"], moves=["rolled", "clanked"], skills=["counting", "strength"],
                  fear="long division"),
    "dragon": dict(
        name="Ember", gender="she", noun="dragon", adjs=["very small", "smoky", "shy", "young"],
                   realms=["shore"],
        homes=["in the stove of the café", "in the warmest corner of the lamp room"],
        habits=["lit the candles and thanked each one", "guarded a hoard of nine buttons",
                "roared once a day, into a pillow"],
        voices=["puffed", "said with a little smoke"], moves=["fluttered", "flapped"],
                   skills=["light", "tea"], fear="cold soup"),
    "pirate": dict(
        name="Finn", gender="he", noun="pirate", adjs=["retired", "kind", "noisy", "polite"],
                   realms=["shore"],
        homes=["in a ship that was parked in a garden", "in the room above the café"],
        habits=["buried treasure and drew very honest maps", "said please before every robbery",
                "taught a parrot to keep quiet"],
        voices=["roared", "said politely"], moves=["stamped", "marched"], skills=["knots", "jokes"],
                   fear="soap"),
    "owl": dict(
        name="Basil", gender="he", noun="owl", adjs=["wise", "round", "sleepy", "gray"], realms=["shore"],
        homes=["in the attic of the schoolhouse", "in a hollow mast"],
        habits=["read the dark with both eyes", "gave advice only to people who had not asked",
                "looked at every question from behind"],
        voices=["hooted", "said wisely"], moves=["glided", "flew"], skills=["wings", "patience"],
                fear="being asked why"),
    "dog": dict(
        name="Rufus", gender="he", noun="dog", adjs=["loyal", "shaggy", "happy", "wet"], realms=["shore"],
        homes=["on the doormat of the lighthouse", "under the best table of the café"],
        habits=["brought back everything that the sea threw away", "welcomed every ship by name",
                "guarded the moon from the end of the pier"],
        voices=["barked", "panted"], moves=["ran", "trotted"], skills=["song", "strength"],
                fear="the word bath"),
    "ghost": dict(
        name="Hugo", gender="he", noun="ghost", adjs=["polite", "thin", "shy", "old"],
                  realms=["shore", "sea"],
        homes=["in the empty room on the second floor", "in a ship that sank politely"],
        habits=["knocked before walking through the wall",
                "said boo very softly so that nobody was frightened",
                "looked after the lost umbrellas"],
        voices=["sighed", "whispered"], moves=["floated", "drifted"], skills=["light", "small"],
                  fear="the dark"),
    "spider": dict(
        name="Ivy", gender="she", noun="spider", adjs=["patient", "tidy", "thin", "quiet"], realms=["shore"],
        homes=["in the corner of the lamp room", "between two masts"],
        habits=["knitted four pairs of socks at a time", "wrote the weather report in a web",
                "caught the dew and let the flies go"],
        voices=["whispered", "hummed"], moves=["climbed", "tiptoed"], skills=["knots", "small"],
                   fear="brooms"),
    "penguin": dict(
        name="Jasper", gender="he", noun="penguin", adjs=["polite", "lost", "round", "serious"],
                    realms=["shore", "sea"],
        homes=["in a bathtub on the pier", "in the ice house behind the fish stall"],
        habits=["dressed for dinner and waited to be invited", "slid down the harbor wall on a tin tray",
                "stood in line even when nobody else was there"],
        voices=["honked", "said stiffly"], moves=["waddled", "slid"], skills=["jokes", "patience"],
                    fear="warm weather"),
}

# What people call a kind when they ask for it, where that is not its noun.
ASKED = {"cat": "cat", "clock": "clock", "star": "star", "gull": "seagull"}

# Places: name, realms, a fact, a strange thing that could be seen there.
PLACES = {
    "Far Rock": dict(realms=["shore", "sea"], fact="stood alone in the water like a forgotten tooth",
                     sight="seals in a row, telling the time with their tails"),
    "the North Pier": dict(realms=["shore"], fact="was so long that its end had different weather",
                           sight="a row of boots waiting for their sailors"),
    "the Cave of Echoes": dict(realms=["shore", "sea"], fact="answered every question with the same question",
                               sight="old words asleep on the walls like bats"),
    "the Salt Market": dict(realms=["shore"], fact="sold forty kinds of salt and one kind of sugar",
                            sight="a lady who sold wind by the yard"),
    "the Sunken Garden": dict(realms=["sea"], fact="grew roses that opened only at high tide",
                              sight="a gardener eel trimming the sea grass"),
    "the Whispering Reef": dict(realms=["sea"], fact="knew everybody's secrets and told them to nobody",
                                sight="ten thousand small fish turning like one page"),
    "the Glass Beach": dict(realms=["shore", "sea"], fact="was made of broken bottles and good intentions",
                            sight="green light and brown light lying in the sand"),
    "the Old Bell Tower": dict(realms=["shore"], fact="leaned to one side to hear the sea better",
                               sight="nine pigeons and one bat who thought it was a pigeon"),
    "the Edge of the Map": dict(realms=["shore", "sea"],
                                fact="was where the paper ended and the guessing began",
                                sight="a dragon who was only an ink stain"),
    "the Harbor of Lost Hats": dict(realms=["sea"], fact="collected every hat that the wind had stolen",
                                    sight="a captain's hat with a family of shrimp inside"),
}

FOODS = ["honey cake", "biscuit", "plum tart", "pear", "currant bun", "cheese sandwich", "ginger cookie",
         "apple pie"]
TOOLS = ["ball of string", "blue blanket", "spare sock", "wooden spoon", "good pencil", "small umbrella",
         "box of buttons",
         "tin whistle"]

WHEN = ["One foggy morning", "One evening, when the tide was low", "The next day", "On a Tuesday",
        "One windy night",
        "Early on a silver morning", "On the first day of spring", "One quiet Sunday",
        "On the longest night of the year",
        "Just after supper"]

OPENERS = ["Once upon a time", "Once upon a tide", "Long ago", "Not so long ago", "In the days of tall ships",
           "When the moon was younger"]

# On the way, and after a surprise.
JOURNEY = ["The wind smelled of oranges.", "A gull gossiped overhead.",
           "The road was long, but it was friendly.",
           "It rained a little, out of habit.", "The sea told one of its older jokes.",
           "Nobody was about but the weather.",
           "The sun came along for the first mile.", "Far away a ship said good morning."]
WONDER = ["Nobody spoke for a while.", "{H} did not know whether to laugh or to cry, and so {he} did both.",
          "{H} laughed until the gulls looked down.",
          "\"Oh,\" said {H}, and that was all there was to say.", "{F} looked at {H}, and {H} looked at {F}.",
          "It was so quiet that one could hear the tide think.", "\"I should have known,\" said {H}.",
          "\"Well,\" said {F}, \"that explains a lot.\""]

ENDINGS = ["The end.", "Good night.", "Sleep well.", "And the tide went out.", "And so to bed."]
MOON = "☾"
