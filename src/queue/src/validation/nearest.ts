/**
 * The candidate that was probably meant: the same letters in another style (`max_jobs`, `MaxJobs`), its beginning, or a
 * few typing mistakes away. Undefined when none is near.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const wanted = letters(word);
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of candidates) {
    const known = letters(candidate);
    const isBeginning = wanted.length >= 3 && known.startsWith(wanted);
    const distance = known === wanted ? 0 : isBeginning ? 1 : editDistance(wanted, known);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

const letters = (word: string): string =>
  word
    .slice(0, 64)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "");

/** Insertions, deletions, substitutions and swaps of neighbours that make one word of the other. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(previous[column]! + 1, current[column - 1]! + 1, previous[column - 1]! + (same ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, beforePrevious[column - 2]! + 1);
      }
      current.push(cost);
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[b.length]!;
}
