# tools/builtin_model/cast.py -- a character of a tale, and the base of everything that tells one.
import random

from small_tales import SYLLABLES
from world import KINDS, MOON, PRONOUNS


def a(phrase):
    """The phrase with its indefinite article."""
    return ("an " if phrase[0].lower() in "aeiou" and not phrase.startswith("one") else "a ") + phrase


def cap(text):
    return text[0].upper() + text[1:]


def title(noun):
    """Title case, small words left small unless they come first."""
    words = noun.split()
    return " ".join(w if i and w in ("a", "of", "the") else cap(w) for i, w in enumerate(words))


class Actor:
    """A name, a kind and an adjective that stay the same until the end of the tale."""

    def __init__(self, rng, realm=None, kinds=None, avoid=(), name=None):
        """`realm`: shore or sea; `kinds`: the kinds allowed (default all); `avoid`: actors whose
        kind is taken; `name`: not the usual one."""
        allowed = [k for k in (kinds or KINDS) if realm is None or realm in KINDS[k]["realms"]]
        self.key = rng.choice([k for k in allowed if k not in [x.key for x in avoid]])
        self.kind = KINDS[self.key]
        self.name, gender = name or self.kind["name"], self.kind["gender"]
        self.noun = self.kind["noun"]
        self.the = "the " + self.noun
        self.adjective_noun = a(rng.choice(self.kind["adjs"]) + " " + self.noun)  # "a small crab"
        self.home = rng.choice(self.kind["homes"])
        self.he, self.him, self.his, self.himself = PRONOUNS[gender]

    def fields(self, friend=False):
        """Template fields: H he him his self He His hk, and for a friend F fhe fhim fhis fself Fhe
        Fhis fk."""
        if friend:
            return {"F": self.name, "fhe": self.he, "fhim": self.him, "fhis": self.his, "fself": self.himself,
                    "Fhe": cap(self.he), "Fhis": cap(self.his), "fk": self.the}
        return {"H": self.name, "he": self.he, "him": self.him, "his": self.his, "self": self.himself,
                "He": cap(self.he), "His": cap(self.his), "hk": self.the}


class Speaker:
    """Draws from lists and fills templates with the cast of one document."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.values = {}

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, p):
        return self.rng.random() < p

    def word(self):
        """An invented word."""
        return "".join(self.pick(SYLLABLES) for _ in range(self.rng.randint(2, 4)))

    def fill(self, template):
        return template.format(**self.values)

    def any(self, items):
        return self.fill(self.pick(items))

    def cast(self, hero, friend=None):
        self.hero, self.friend = hero, friend
        self.values.update(hero.fields())
        if friend:
            self.values.update(friend.fields(friend=True))

    def say(self, actor, line, asks=False, plain=False):
        """A line of speech in one of several arrangements. `line` has no final mark; `plain` keeps
        to the name."""
        who = actor.name if plain or self.chance(0.7) else actor.the
        form = self.rng.random()
        if asks:
            return f'"{line}?" {"asked " + who if form < 0.7 else who + " asked"}.'
        if form < 0.55:
            voice = self.pick([v for v in actor.kind["voices"] if " " not in v] + ["said"])
            return f'"{line}," {voice} {who}.'
        if form < 0.8:
            return f'"{line}," {who} {self.pick(actor.kind["voices"])}.'
        return f'{cap(who)} {self.pick(["nodded", "smiled", "looked up", "thought about it"])}. "{line}."'

    @staticmethod
    def signed(text):
        return text + " " + MOON
