# tools/builtin_model/tales.py -- the long form: a wish, a journey, an obstacle, a friend, a twist.
from cast import Actor, Speaker, a, cap, title
from plots import MORALS, OBSTACLES, OFFERS, RIDDLES, WISHES
from world import ASKED, ENDINGS, FOODS, JOURNEY, KINDS, OPENERS, OTHER_NAMES, PLACES, TOOLS, WHEN, WONDER

SHAPES = ["stranger"] * 9 + ["old friends"] * 6 + ["rescue"] * 3 + ["two troubles"] + ["bedtime"] * 4


class Tale(Speaker):
    """One tale. `tell` gives its text; `prompt` a title or a request that fits it, or nothing."""

    def choose(self):
        """Cast, wish, place and obstacle that fit each other: the friend is somebody whose skill
        solves the obstacle."""
        self.renamed = self.chance(0.12)
        name = (self.pick(OTHER_NAMES) if self.chance(0.5) else cap(self.word())) if self.renamed else None
        while True:
            realm = self.pick(["shore", "shore", "sea"])
            known = [k for k in ("lantern", "keeper", "compiler") if realm in KINDS[k]["realms"]]
            hero = Actor(self.rng, realm, kinds=known if self.chance(0.2) else None, name=name)
            suits = lambda x: hero.key not in x.get("not_for", [])
            obstacle = self.pick([o for o in OBSTACLES if realm in o["realms"] and suits(o)])
            skill = self.pick(sorted(obstacle["solve"]))
            kinds = [k for k, v in KINDS.items() if skill in v["skills"] and realm in v["realms"]
                     and k != hero.key]
            if kinds:
                break
        self.realm, self.obstacle, self.skill = realm, obstacle, skill
        self.wish = self.pick([w for w in WISHES if suits(w)])
        riddle, answer = self.pick(RIDDLES)
        self.values.update(food=self.pick(FOODS), tool=self.pick(TOOLS), riddle=riddle, answer=answer,
                           P=self.pick([p for p, v in PLACES.items() if realm in v["realms"]]))
        self.cast(hero, Actor(self.rng, realm, kinds=kinds, avoid=[hero]))

    def introduce(self):
        h, habits = self.hero, self.rng.sample(self.hero.kind["habits"], 2)
        kind = h.adjective_noun
        once = self.pick(OPENERS)
        out = [self.pick([f"{once} there was {kind} named {h.name} who lived {h.home}.",
                          f"{once}, {h.home}, there lived {kind} named {h.name}."] if self.chance(0.7) else
                         [f"{h.name} was {kind} and lived {h.home}.",
                          f"{cap(h.home)} lived {kind} named {h.name}."])]
        day = self.pick(["Every night", "Every morning", "By day", "On most days", "Whenever it rained"])
        if self.chance(0.5):
            out.append(self.pick([f"{day} {h.he} {habits[0]}.",
                                  f"{cap(h.he)} {habits[0]}, and sometimes {h.he} {habits[1]}."]))
        if self.chance(0.15):
            out.append(self.pick([f"{h.name} was afraid of only one thing, and that was {h.kind['fear']}.",
                                  f"{cap(h.he)} did not like {h.kind['fear']}, but who does?"]))
        return " ".join(out)

    def want(self):
        h, to = self.hero, self.wish["to"]
        forms = [f"More than anything, {h.name} wanted to {to}.",
                 f"But {h.name} had one wish. {cap(h.he)} wanted to {to}.",
                 f"\"One day I will {to},\" {h.name} said to the stars.",
                 f"What {h.name} wanted most of all was to {to}.",
                 f"There was only one thing missing. {h.name} wanted to {to}."]
        return self.pick(forms) + (" " + self.any(self.wish["why"]) if self.chance(0.5) else "")

    def set_out(self, who):
        """`who`: the hero's pronoun, or they."""
        food, tool, place, name = (self.values[k] for k in ("food", "tool", "P", "H"))
        when = self.pick(WHEN)
        when += "" if "," in when or len(when.split()) < 4 else ","
        packed = f"{a(food)} and {a(tool)}" if self.chance(0.5) else f"{a(tool)} and {a(food)}"
        subject = name if who != "they" and self.chance(0.5) else who
        out = self.pick([f"{when} {subject} packed {packed} and set out for {place}.",
                         f"{when} {subject} took {packed}, locked the door, and went to look for {place}.",
                         f"\"It must be at {place},\" said {name}. So {who} packed {packed} and left a note "
                         f"on the door.",
                         f"\"Try {place},\" said the wind, which hears everything. So {who} took {packed} "
                         f"and went."])
        if self.chance(0.25):
            fact = PLACES[place]["fact"]
            out += " " + self.pick([f"{cap(place)} {fact}.", f"People said that {place} {fact}.",
                                    f"Now {place} {fact}."])
        return out + (" " + self.pick(JOURNEY) if self.chance(0.2) else "")

    def meet(self):
        f = self.friend
        kind, move = f.adjective_noun, self.pick(f.kind["moves"])
        return self.pick([f"Just then {kind} {move} by. {cap(f.his)} name was {f.name}.",
                          f"\"Good evening,\" said somebody. It was {kind} named {f.name}.",
                          f"Somebody coughed politely. There stood {kind}. \"I am {f.name},\" said {f.the}.",
                          f"Then {self.hero.name} heard a small noise. It was {kind} named {f.name}, who "
                          f"lived {f.home}."])

    def talk(self):
        to, food = self.wish["to"], cap(a(self.values["food"]))
        question, answer = self.pick([
            ("Where are you going", f"To {self.values['P']}"),
                                      ("What are you looking for", f"I want to {to}"),
            ("Why do you look so sad", f"I only want to {to}"), ("Are you lost", "Only a little"),
            ("Is it far", "That depends on the company"), ("What is in the bag", f"{food}, for later")])
        return self.say(self.friend, question, asks=True) + " " + self.say(self.hero, answer)

    def problem(self):
        out = [self.any(self.obstacle["appear"])]
        if self.chance(0.5):
            line = self.pick(self.obstacle["says"])
            out.append(self.say(self.hero, line, asks=line.split()[0] in ("May", "Who", "Could")))
        if self.chance(0.5):
            out.append(self.any(self.obstacle["fail"]))
        return " ".join(out)

    def help(self):
        offer = self.say(self.friend, self.pick(OFFERS[self.skill])) + " " if self.chance(0.5) else ""
        return offer + self.any(self.obstacle["solve"][self.skill])

    def again(self):
        """A second obstacle that yields to the same skill; None where there is none."""
        fits = [o for o in OBSTACLES if o is not self.obstacle and self.realm in o["realms"]
                and self.skill in o["solve"]
                and self.hero.key not in o.get("not_for", [])]
        if not fits:
            return None
        other = self.pick(fits)
        return " ".join(["They went on together.", self.any(other["appear"]), self.any(other["fail"]),
                         self.any(other["solve"][self.skill])])

    def arrive(self):
        place = self.values["P"]
        out = [self.pick([f"So they came to {place}.", f"At last they reached {place}.",
                          f"And there was {place}.",
                          f"By and by they stood before {place}."])]
        if self.chance(0.25):
            out.append(self.pick(["They saw ", "The first thing they saw was "]) + PLACES[place]["sight"]
                       + ".")
        out += [self.any(self.wish["arrive"]), self.any(self.wish["twist"])]
        if self.chance(0.2):
            out.append(self.any(WONDER))
        return " ".join(out)

    def close(self, moral):
        h, f, food = self.hero, self.friend, self.values["food"]
        out = []
        if self.chance(0.45):
            out.append(self.pick([f"They shared the {food} and watched the water.",
                                  f"Then {h.name} cut the {food} into two exact halves.",
                                  f"On the way home they ate the {food}, and it had never tasted better.",
                                  f"{h.name} gave {f.name} the bigger half of the {food}."]))
        out.append(self.any(self.wish["end"]))
        if moral and self.chance(0.7):
            line = self.pick(MORALS[self.skill])[:-1]
            out.append(self.pick([self.say(f, line, plain=True), f"And {f.name} still says, \"{line}.\"",
                                  line + ".",
                                  f"Remember this: {line[0].lower() + line[1:]}."]))
        if self.chance(0.35):
            out.append(self.pick(ENDINGS))
        return " ".join(out)

    def tell(self):
        """The text. Long-range threads: names, kinds, pronouns, the place, the food packed, the
        tool that frees the friend."""
        self.choose()
        h, f = self.hero, self.friend
        shape = self.pick(SHAPES)
        start = self.introduce()
        if shape == "bedtime":
            invite = (f"{h.name} asked {f.name}, {f.adjective_noun}, to come along and to bring "
                      f"{a(self.values['food'])}.")
            parts = [start + " " + self.want(), invite + " " + self.arrive(), self.close(moral=False)]
        elif shape == "old friends":
            habit = self.pick(f.kind["habits"])
            friend = self.pick([f"{cap(h.his)} best friend was {f.name}, {f.adjective_noun} who {habit}.",
                                f"Next door lived {f.name}, {f.adjective_noun}, who {habit}."])
            come = self.say(f, self.pick(["I am coming with you", "Not without me",
                                          "Then we will go together", "Two are warmer than one"]))
            parts = [start + " " + friend, self.want() + " " + come + " " + self.set_out("they"),
                     self.problem() + " " + self.help(), self.arrive(), self.close(moral=True)]
        elif shape == "rescue":
            stuck = self.pick(["stuck upside down in a bucket", "caught in a fishing net",
                               "shut in a crate of lemons", "wound up in a flag"])
            thanks = self.pick([f"\"I will not forget it,\" said {f.name}, and they went on together.",
                                f"{f.name} bowed. \"Now I am coming with you.\""])
            rescue = (f"On the way {h.he} found {f.adjective_noun} named {f.name}, {stuck}. "
                      f"{self.say(f, 'Could you help me, please', asks=True)} "
                      f"{h.name} took out the {self.values['tool']}, and with that and a little luck "
                      f"{f.name} was free. {thanks}")
            parts = [start + " " + self.want(), self.set_out(h.he) + " " + rescue,
                     self.problem() + " " + self.help(), self.arrive(),
                     self.close(moral=True)]
        else:
            meeting = self.meet() + " " + (self.talk() + " " if self.chance(0.5) else "")
            parts = [start + " " + self.want(), self.set_out(h.he) + " " + self.problem(),
                     meeting + self.help()]
            more = self.again() if shape == "two troubles" else None
            parts += ([more] if more else []) + [self.arrive(), self.close(moral=True)]
        return self.signed("\n\n".join(parts))

    def prompt(self):
        h, f, hk, fk = self.hero, self.friend, self.hero.noun, self.friend.noun
        wish, obstacle = self.wish["noun"], self.obstacle["noun"]
        if self.renamed:
            return self.pick([f"Tell me a story about {a(hk)} named {h.name}.",
                              f"Tell me a story about {h.name} the {hk}."])
        kind = self.rng.random()
        if kind < 0.35:
            return ""
        if kind < 0.65:
            return self.pick([f"{h.name} and the {wish}", f"The {title(hk)} and the {wish}",
                              f"{h.name}, {f.name}, and the {obstacle}",
                              f"{h.name} and the {obstacle}", f"The {title(hk)} and the {title(fk)}",
                              f"How {h.name} Met {f.name}"])
        hk, fk = ASKED.get(h.key, hk) if self.chance(0.5) else hk, ASKED.get(f.key, fk)
        return self.pick([f"Tell me a story about {a(hk)}.", f"Tell me a story about {h.name} the {hk}.",
                          f"Tell me a story about {h.name}.",
                          f"Tell me a story about {h.name} and {f.name}.",
                          f"Tell me a story about {a(hk)} and {a(fk)}.",
                          f"A story about {a(hk)}, please.",
                          f"Can you tell me a story about {a(hk)} named {h.name}?",
                          f"Tell me about the {wish.lower()}.", "Tell me a bedtime story.",
                          "Tell me a story."])
