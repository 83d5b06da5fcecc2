// What the pointer changes, counted: scores, wins and losses, and one query's ranking. No page in here.
// Python gives each leg's part in a score; this adds them in the legs' order and sorts, as a search does.
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const floats = (text) => new Float64Array(bytes(text).buffer);
const shorts = (text) => new Uint16Array(bytes(text).buffer);
const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
const written = (weights) => weights.join("-");

const surfaceOf = (given) => {
  const size = given.legs.length;
  const points = Array.from({ length: given.means.length }, (_, at) => given.grid.slice(at * size, (at + 1) * size));
  const rows = new Map(points.map((point, at) => [written(point), at]));
  return { ...given, points, rows, values: floats(given.values), codes: shorts(given.codes), untuned: shorts(given.untuned) };
};

const queryOf = (given) => ({ ...given, ranks: shorts(given.ranks), parts: floats(given.parts) });

const codesAt = (surface, row) => surface.codes.subarray(row * surface.queries.length, (row + 1) * surface.queries.length);

// Wins and losses at a point. The reference is a point, or "" for all legs alike.
const compared = (surface, row, reference) => {
  const codes = codesAt(surface, row);
  const other = reference ? codesAt(surface, surface.rows.get(reference)) : surface.untuned;
  const moved = [];
  codes.forEach((code, query) => {
    if (code !== other[query]) moved.push([query, surface.values[code] - surface.values[other[query]]]);
  });
  moved.sort((one, two) => two[1] - one[1] || one[0] - two[0]);
  const better = moved.filter(([, gain]) => gain > 0).length;
  const before = reference ? surface.means[surface.rows.get(reference)] : surface.alike;
  return { moved, better, worse: moved.length - better, same: codes.length - moved.length, gain: surface.means[row] - before };
};

const relative = (score, ceiling) => (ceiling == null ? score : ceiling ? Math.min(score / ceiling, 1) : 0);

const onceEach = (units) => {
  const seen = new Set();
  return units.filter(({ item }) => !seen.has(item) && seen.add(item));
};

// The query's items, best first, with each leg's part. `levels` are the legs' weights in whole steps.
const ranked = (query, steps, levels, ceiling) => {
  const candidates = query.item.length;
  const depth = query.parts.length / (levels.length * (steps + 1));
  const asked = levels.map((_, leg) => leg).sort((one, two) => (levels[one] <= 0) - (levels[two] <= 0) || one - two);
  const units = [];
  for (let at = 0; at < candidates; at += 1) {
    const places = levels.map((_, leg) => query.ranks[leg * candidates + at]);
    if (query.drop && levels.some((level, leg) => level > 0 && !places[leg])) continue;
    const parts = levels.map((level, leg) => query.parts[(leg * (steps + 1) + level) * depth + places[leg]]);
    const before = places[asked.find((leg) => places[leg])];
    units.push({ at, item: query.item[at], score: total(parts), before, places, parts });
  }
  units.sort((one, two) => two.score - one.score || one.before - two.before || one.at - two.at);
  const cut = query.cut;
  const gone = units.slice(0, cut.fused ?? undefined);
  const rolled = cut.rollup ? onceEach(gone) : gone;
  const kept = rolled.filter(({ score }) => relative(score, ceiling) >= cut.least);
  return onceEach(kept.slice(0, cut.depth ?? undefined));
};

// One leg's share set; the others share the rest as they did in `before`, by the largest remainders.
const withShares = (before, group, share, others, steps) => {
  const weights = [...before];
  const spread = (legs, sum) => {
    const had = total(legs.map((leg) => before[leg]));
    const exact = legs.map((leg) => (had ? (before[leg] * sum) / had : sum / legs.length));
    legs.forEach((leg, at) => { weights[leg] = Math.floor(exact[at]); });
    const order = legs.map((_, at) => at).sort((one, two) => (exact[two] % 1) - (exact[one] % 1) || one - two);
    const left = sum - total(legs.map((leg) => weights[leg]));
    for (const at of order.slice(0, left)) weights[legs[at]] += 1;
  };
  spread(group, share);
  spread(others, steps - share);
  return weights;
};
