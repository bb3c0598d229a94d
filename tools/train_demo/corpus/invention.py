"""Words that nobody has seen, so that the model must copy rather than remember.

They are of several kinds, so that every piece of the vocabulary has to be copied now and then: heads and
tails of known words joined, pieces from inside of them, syllables, letters at random; in training also parts
of the words of prompts, which are tokens that a reply hardly ever has, and common words of English.
"""

from __future__ import annotations

from ..split import Draw, Split, listed
from . import tables

ONSETS = listed(
    """b, c, ch, cl, cr, d, dr, f, fl, fr, g, gl, gr, h, j, k, l, m, n, p, pl, pr, qu, r, s, sc, sh, sl,
    sm, sn, sp, spr, st, str, sw, t, th, tr, tw, v, w, wh, y, z"""
)
VOWELS = listed("a, e, i, o, u, a, e, i, o, ai, ay, au, ea, ee, ie, io, oa, oo, ou, ow, y")
CODAS = listed(
    """b, ck, d, dge, ff, g, l, ll, ld, lt, m, mp, n, nd, ng, nk, nt, p, r, rd, rk, rn, rt, s, sh, ss, st,
    t, tch, tion, th, x, ze, me, ne, te, ver, ter, der, ment, ing, ica, ia, us, er, en, el, le, ard"""
)
PARTS = listed(
    """ac, act, aft, age, ake, alb, anish, ange, antity, apest, apit, appoin, argu, arty, ask, assify,
    assistant, ature, aug, ava, bang, beij, bject, bog, bout, brus, bud, bul, cago, calculate, capital,
    cel, cho, cis, class, comp, compute, contact, control, conver, copenhag, copy, create, cul, cury,
    dall, dec, deli, description, dne, down, dule, each, earch, eather, ebru, echo, eep, elsius, ember,
    endar, enna, entiment, ero, estion, euro, even, ext, extract, februr, fli, four, fre, func,
    function, gest, gree, guage, hag, heit, hel, helsin, hens, hich, icel, ided, ilver, input, integer,
    ipient, istant, ited, ition, ive, jak, jap, ject, jup, key, keywords, kri, lace, lation, lear,
    lease, lga, lights, lim, list, lithu, loc, lond, lou, mani, mbol, member, ment, mer, mex, mic, mong,
    mos, multiply, nairo, nesday, ngth, ning, nov, nowy, oct, oday, oken, olve, omer, oney, ontact, opy,
    ormation, ositive, ott, ound, our, ourite, pack, parameters, peat, penhag, perature, pert, perties,
    place, plain, play, please, ply, pose, posite, positive, pra, pril, properties, put, question,
    quick, race, rack, ract, rais, ranslate, reate, remember, repeat, reply, required, results, return,
    rite, rog, rol, rosi, rous, sant, sat, say, schedule, seat, send, sep, set, sius, six, solve, spell,
    ssage, star, stem, sterdam, stock, string, subtract, switch, sydne, system, take, ted, teen, tell,
    tember, temperature, thank, ther, ties, tine, ting, tive, tment, tok, tract, trans, tune, turn,
    type, uary, ubject, ued, ulti, una, uran, urday, uros, urre, urrent, usic, ustomer, ution, ved,
    wars, wed, ween, well"""
)
ENGLISH = listed(
    """account, address, airport, album, animal, answer, artist, balance, bank, basis, beach, board, boat,
    body, border, bottom, branch, brand, brother, budget, building, bus, business, cabin, call, camp,
    card, care, case, category, chapter, cheese, child, circle, coast, code, coin, college, comment,
    company, corner, course, cousin, cover, crowd, culture, current, debt, degree, desk, detail,
    direction, discount, distance, doctor, document, door, dozen, dress, duty, edge, education, effect,
    employer, energy, entrance, error, exercise, expert, factor, family, farm, father, feature, field,
    file, floor, folder, folk, food, foot, force, form, freedom, front, future, gate, gold, government,
    grade, grain, hall, hand, head, health, heart, holiday, hospital, hour, husband, image, income,
    index, inside, interest, invoice, iron, issue, journey, judge, kind, knowledge, land, language,
    leader, leaf, level, limit, line, link, local, luck, machine, main, manager, market, material,
    matter, meal, measure, media, message, metal, method, middle, minute, mission, mode, model, moment,
    mother, motor, museum, nature, network, newspaper, noise, north, note, object, office, option,
    owner, page, pair, paper, parent, park, partner, passage, path, patient, pattern, payment, period,
    phone, photo, picture, planner, plant, plastic, platform, player, police, pool, position, post,
    power, practice, president, pressure, priority, problem, process, project, property, purpose,
    quality, rain, range, rate, ratio, reader, reason, record, report, rest, result, road, rock, role,
    roof, room, root, route, rule, safety, salt, sample, scale, school, score, screen, season, second,
    section, sector, seed, seller, sense, serial, series, service, session, shape, share, sheet, ship,
    shop, shoulder, side, signal, sister, size, skill, soil, song, sound, source, south, space, speaker,
    speed, sport, spot, stage, stand, station, step, store, storm, street, strength, student, style,
    sugar, surface, survey, target, task, taste, team, temple, test, theory, ticket, title, tool, tower,
    town, track, traffic, trip, truck, truth, uncle, unit, value, vehicle, version, view, village,
    visit, voice, volume, wall, weight, west, wheel, wife, wing, wire, wood, world, worker, yard, year"""
)
LETTERS = "eeeeaaaiiooonnnrrrtttlllsssddccuummpphhggbbffyywwkkvvxzjq"


def made_up_word(draw: Draw) -> str:
    """A word in lower case, like "brovan", "umbregon" or "tkelas"; never one that is held out."""
    word = draw.weighted(_HELD_OUT_KINDS if draw.held_out else _KINDS)(draw)
    return made_up_word(draw) if word in _HELD_OUT else word


def name_or_new(draw: Draw, known: Split[str]) -> str:
    """A known name, or in training often a made-up one with a capital letter."""
    if not draw.held_out and draw.chance(0.5):
        return made_up_word(draw).capitalize()
    return draw.of(known)


def _blend(draw: Draw) -> str:
    head, tail = draw.some(_KNOWN, 2)
    return (head[: draw.number(1, 4)] + tail[-draw.number(2, 5) :]).lower()


def _pieces(draw: Draw) -> str:
    return "".join(_piece(draw, draw.any(_KNOWN)) for _ in range(draw.any([2, 2, 3])))


def _piece(draw: Draw, word: str) -> str:
    start = draw.number(0, len(word) - 2)
    return word[start : start + draw.number(2, 4)].lower()


def _syllables(draw: Draw) -> str:
    start = "".join(draw.any(ONSETS) + draw.any(VOWELS) for _ in range(draw.number(0, 1)))
    return start + draw.any(ONSETS) + draw.any(VOWELS) + draw.any(CODAS)


def _letters(draw: Draw) -> str:
    return "".join(draw.any(LETTERS) for _ in range(draw.number(3, 7)))


def _parts(draw: Draw) -> str:
    part = draw.any(PARTS)
    other = draw.any([_syllables(draw), draw.any(PARTS), draw.any(_KNOWN)[: draw.number(1, 4)].lower()])
    return part + other if draw.chance(0.5) else other + part


def _english(draw: Draw) -> str:
    return draw.any(ENGLISH)


def _known_words() -> list[str]:
    """Every word of the tables that may be trained on, once."""
    phrases = [phrase for pool in _POOLS for phrase in pool.seen]
    phrases += [name for country in tables.COUNTRIES for name in country]
    phrases += [*tables.MONTHS, *tables.DAYS, *tables.PLANETS, *tables.OPPOSITES, *tables.ORDINALS]
    words = {word for phrase in phrases for word in phrase.split() if word.isalpha() and len(word) > 2}
    return sorted(words)


_POOLS = (tables.NAMES, tables.CITIES, tables.JOBS, tables.THINGS, tables.COMMON_WORDS)
_HELD_OUT = {phrase.lower() for pool in _POOLS for phrase in pool.unseen}
_KNOWN = _known_words()
_HELD_OUT_KINDS = {_blend: 5, _syllables: 4, _letters: 1}
_KINDS = {_blend: 4, _pieces: 4, _syllables: 2, _letters: 1, _parts: 6, _english: 4}
