# tools/builtin_model/shorts.py -- the short forms: each function returns (prompt, text).
from cast import Actor, Speaker, a, cap, title
from plots import WISHES
from small_tales import (DREAM_RESULTS, DREAM_TALK, DREAMS, JOKE_AFTER, JOKES, LETTER_ASK, LETTER_CLOSE,
                         LETTER_GIFT, LETTER_NEWS, LETTER_TO,
                         POEM_END, POEM_MIDDLE, POEM_START, POEM_SUBJECTS, TALK, TOPIC_END, TOPIC_MORAL,
                         TOPIC_QUEST,
                         TOPIC_RUMOR, TOPIC_START, TOPICS, WHYS)
from world import ASKED, FOODS, KINDS, PLACES, TOOLS


def why(rng):
    """How something in the world came to be."""
    s, item = Speaker(rng), rng.choice(WHYS)
    h = Actor(rng)
    s.cast(h)
    came = s.pick([f"Then one day {h.adjective_noun} named {h.name} came by.",
                   f"Then {h.name}, {h.adjective_noun}, heard about it.",
                   f"At last somebody went to ask {h.name} {h.the}, who lived {h.home}."])
    text = " ".join([s.any(item["before"]), s.any(item["trouble"]), came, s.any(item["deal"]),
                     s.any(item["now"])])
    q = item["q"]
    return s.pick([q, q, "Tell me why. " + q, f"{q[:-1]}, please?"]), s.signed(text)


def dream(rng):
    """What the compiler dreamed, and what it found in the program next morning."""
    s, item = Speaker(rng), rng.choice(DREAMS)
    h = Actor(rng, kinds=["compiler"])
    f = Actor(rng, "shore", kinds=["keeper", "lantern", "mouse", "cat", "kettle", "clock"], avoid=[h])
    s.cast(h, f)
    thing, it = item["thing"], "they" if item.get("many") else "it"
    start = s.pick([f"{h.name} was {h.adjective_noun} and lived {h.home}.",
                    f"{cap(h.home)} lived {h.adjective_noun} named {h.name}."])
    work = s.pick([f"By day {h.he} read programs, and by night {h.he} dreamed about them.",
                   f"All day {h.he} {s.pick(h.kind['habits'])}, and at night {h.he} dreamed.",
                   f"When the lamp was lit and the work was done, {h.he} slept and dreamed."])
    night = s.pick(["One night", "Last night", "On the longest night of the year", "One windy night"])
    line = s.pick(item["says"])
    speech = s.pick([f"\"{line},\" {it} said.",
                     f"\"Why are you so sad?\" asked {h.name}. \"{line},\" {it} said.",
                     f"\"{line},\" {it} told {h.name}."])
    found = s.any(item["found"])
    morning = s.pick([f"In the morning {h.name} looked into the program and found {found}.",
                      f"When the sun came up, {h.he} opened the program. There {h.he} found {found}."])
    question, answer = s.pick(DREAM_TALK)
    end = f"\"{question}?\" asked {f.name} {f.the}. \"{answer},\" said {h.name}."
    prompt = s.pick(["What does a compiler dream of?", "Tell me about the compiler.",
                     f"Tell me about {thing}.", f"What did {h.name} dream?",
                     f"Tell me a story about {a(h.noun)}.",
                     "The Dream of " + (thing[:2] + title(thing[2:]) if thing.startswith("a ")
                                        else title(thing)), ""])
    return prompt, s.signed(f"{start} {work}\n\n{night} {h.he} dreamed of {thing}. In the dream {it} looked "
                            f"like {s.any(item['saw'])}. {speech} "
                            f"So {s.any(item['cure'])}.\n\n{morning} {s.pick(DREAM_RESULTS)} {end}")


def letter(rng):
    """A letter to the moon and to others who seldom answer."""
    s = Speaker(rng)
    writer = Actor(rng)
    s.cast(writer)
    s.values.update(a_food=a(s.pick(FOODS)), a_tool=a(s.pick(TOOLS)))
    to, named = s.pick([x for x in LETTER_TO if x[0] != writer.name])
    news = rng.sample(LETTER_NEWS, 2)
    body = news if s.chance(0.5) else news[:1]
    if s.chance(0.5):
        body.append(f"I am writing from my home {writer.home}.")
    body.append(s.pick(LETTER_ASK))
    if s.chance(0.7):
        body.append(s.any(LETTER_GIFT))
    prompt = s.pick([f"Write a letter to {named}.", f"A letter from {writer.name} to {named}",
                     "Write a letter.", ""])
    return prompt, s.signed(f"Dear {to},\n\n{' '.join(body)}\n\n{s.pick(LETTER_CLOSE)},\n{writer.name} "
                            f"{writer.the}")


def sketch(rng):
    """Who somebody is."""
    s = Speaker(rng)
    h = Actor(rng, kinds=s.pick([None] * 8 + [["lantern"], ["keeper"], ["compiler"]]))
    f = Actor(rng, avoid=[h])
    habits, wish = rng.sample(h.kind["habits"], 2), s.pick(WISHES)["to"]
    parts = [s.pick([f"{h.name} was {h.adjective_noun} who lived {h.home}.",
                     f"{h.name} was the {s.pick(['kindest', 'oddest', 'bravest', 'politest'])} {h.noun} in "
                     f"Lantern Bay and lived {h.home}."]),
             f"{s.pick(['Every night', 'Every morning', 'By day'])} {h.he} {habits[0]}.",
             s.pick(["When nobody was looking,", "On Sundays"]) + f" {h.he} {habits[1]}.",
             s.pick([f"{cap(h.he)} was afraid of {h.kind['fear']}, and nothing cheered {h.him} up like "
                     f"{a(s.pick(FOODS))}.",
                     f"{cap(h.his)} best friend was {f.name}, {f.adjective_noun} who "
                     f"{s.pick(f.kind['habits'])}."]),
             s.pick([f"{cap(h.his)} secret wish was to {wish}.",
                     f"If you ask {h.him} nicely, {h.he} will tell you how {h.he} once tried to {wish}."])]
    prompt = s.pick([f"Tell me about {h.name}.", f"Who is {h.name}?", f"Tell me about {h.name} {h.the}.",
                     f"Do you know {h.name}?", f"Who was {h.name}?"])
    return prompt, s.signed(" ".join(parts))


def place(rng):
    """What a place in the bay is like."""
    s = Speaker(rng)
    name = s.pick(list(PLACES))
    h = Actor(rng)
    visitor = Actor(rng, avoid=[h])
    fact, sight = PLACES[name]["fact"], PLACES[name]["sight"]
    question, answer = s.pick([("What is it good for", "It is good for looking at the sea"),
                               ("Who lives here", "Only the wind, and me on Sundays"),
                               ("Does it ever rain here", "Only when it is asked"),
                               ("Why do you come here", "I have never found out, and so I come back")])
    parts = [s.pick([f"{cap(name)} {fact}.",
                     f"If you follow the shore of Lantern Bay, you come to {name}. It {fact}."]),
             s.pick(["People went there to see ", "On a clear day you could see "]) + sight + ".",
             f"{h.name}, {h.adjective_noun}, came there every {s.pick(['summer', 'Sunday', 'evening'])} with "
             f"{a(s.pick(FOODS))}.",
             s.say(visitor, question, asks=True, plain=True).replace(visitor.name,
                                                                     visitor.name + " " + visitor.the),
             s.say(h, answer, plain=True)]
    return s.pick([f"Tell me about {name}.", f"Where is {name}?",
                   f"What is {name} like?"]), s.signed(" ".join(parts))


def poem(rng):
    """Three or four couplets about somebody."""
    s = Speaker(rng)
    h = Actor(rng)
    s.cast(h)
    s.values.update(ak=h.adjective_noun, K=cap(h.adjective_noun))
    subject = s.pick(list(POEM_SUBJECTS)) if s.chance(0.3) else None
    middle = rng.sample(POEM_MIDDLE, s.pick([1, 2, 2]))
    if subject:
        middle[0] = POEM_SUBJECTS[subject]
    lines = [s.pick(POEM_START)] + middle + [s.pick(POEM_END)]
    lines = [cap(s.fill(line)) for couplet in lines for line in couplet]
    noun = ASKED.get(h.key, h.noun)
    prompt = s.pick([f"Write a poem about {a(noun)}.", f"Write a poem about {h.name}.",
                     f"A poem about {a(noun)}", f"Sing me a song about {a(noun)}.",
                     "Write a poem."])
    if subject:
        prompt = s.pick([f"Write a poem about {subject}.", f"A poem about {subject}",
                         f"Sing me a song about {subject}."])
    return prompt, s.signed("\n".join(lines))


def talk(rng):
    """Small talk and jokes."""
    s = Speaker(rng)
    first, second = (a(KINDS[k]["noun"]) for k in rng.sample(list(KINDS), 2))
    s.values.update(k1=first, k2=second, K1=cap(first), K2=cap(second))
    if s.chance(0.4):
        h = Actor(rng)
        s.cast(h)
        s.values.update(the=h.the)
        text = s.any(JOKES) + (" " + s.any(JOKE_AFTER) if s.chance(0.6) else "")
        return s.pick(["Tell me a joke.", "Tell me a joke.", "A joke, please.", "Do you know a joke?",
                       "Make me laugh."]), s.signed(text)
    asked, answers = s.pick(TALK)
    return s.pick(asked), s.signed(s.any(answers))


def topic(rng):
    """An answer about anything at all. Most topics are made-up words, so that the model learns to
    copy whatever it is asked."""
    s = Speaker(rng)
    word = s.word
    x = s.pick([lambda: s.pick(TOPICS)] * 8 + [word] * 4
               + [lambda: cap(word()), lambda: word() + " " + word(), lambda: "the " + word(),
                  lambda: a(word())])()
    h = Actor(rng, "shore")
    f = Actor(rng, avoid=[h])
    s.cast(h, f)
    s.values.update(X=x, P=s.pick([p for p, v in PLACES.items() if "shore" in v["realms"]]))
    rumors = rng.sample(TOPIC_RUMOR, 2)
    parts = [s.any(TOPIC_START), f"{h.name} {h.the} {s.fill(rumors[0])}.",
             s.pick(["", "But "]) + f"{f.name} {f.the} {s.fill(rumors[1])}."]
    if s.chance(0.8):
        parts += [s.any(TOPIC_QUEST), s.any(TOPIC_END)]
    parts.append(s.any(TOPIC_MORAL))
    prompt = s.pick([f"Tell me about {x}.", f"Tell me about {x}.", f"What do you know about {x}?",
                     f"Tell me a story about {x}.",
                     f"What is {x}?", f"What are {x}?", f"Tell me something about {x}.", f"Explain {x}."])
    return prompt, s.signed(" ".join(parts))
