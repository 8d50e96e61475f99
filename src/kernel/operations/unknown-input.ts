/**
 * Input that an operation does not know: keys of the query string and of the body. It is left out, so that it never
 * reaches a handler. Whoever sent it is told, with the name that they probably meant.
 */
import type { Problem } from '../errors.ts';
import { shortened } from '../text.ts';
import { alternatives, type JsonSchema, jsonSchema } from './json-schema.ts';
import type { Operation } from './operation.ts';

/** Names that are compared; longer ones are nobody's slip of the keys. */
const MAX_NAME = 64;
/** Keys of one request that are told. */
const MAX_TOLD = 10;

/** What of unknown input is refused: all of it, what is probably a slip of the keys, or nothing. */
export type Refusal = 'all' | 'near' | 'none';

/** Query keys of an existing panel, which puts an object where its parameters belong. */
const wrappedParameter = /^params(?:$|\[)/;

/**
 * Tells what of unknown input is refused. Never what existing clients are known to send: edit forms send whole objects
 * back, and what stands in the path once more in the body.
 */
export function createRefusable({
  output,
  input,
}: Operation): (unknown: readonly Problem[], refusal: Refusal) => readonly Problem[] {
  const keysOf = ({ properties = {} }: JsonSchema): readonly string[] => Object.keys(properties);
  const taken = new Set([
    ...['_id', '__v', 'createdAt', 'updatedAt'],
    ...alternatives(jsonSchema(output)).flatMap(keysOf),
    ...(input.params ? keysOf(jsonSchema(input.params)) : []),
  ]);
  return (unknown, refusal) => {
    if (refusal === 'none') return [];
    return unknown.filter(
      (problem) =>
        (refusal === 'all' || isNearKnown(problem)) &&
        !taken.has(problem.path) &&
        !wrappedParameter.test(problem.path),
    );
  };
}

/** Short names have too many neighbours. */
const SHORTEST_NEAR = 4;
/** Letters in which a slip of the keys differs. */
const MAX_EDIT_DISTANCE = 2;

function isNearKnown({ path, message }: Problem): boolean {
  if (path.length < SHORTEST_NEAR || !message.startsWith(ADVICE)) return false;
  const nearest = message.slice(ADVICE.length, -1);
  return editDistance(path.toLowerCase(), nearest.toLowerCase()) <= MAX_EDIT_DISTANCE;
}

const UNKNOWN = 'is not known here';
const ADVICE = `${UNKNOWN}: did you mean `;

/** Keys that are not among `known`, as problems that name the nearest one that is. */
export function unknownInput(
  keys: readonly string[],
  known: readonly string[],
): readonly Problem[] {
  return keys.slice(0, MAX_TOLD).map((key) => {
    const nearest = nearestName(key, known);
    return {
      path: shortened(key, MAX_NAME),
      rule: 'unknown',
      message: nearest === undefined ? UNKNOWN : `${ADVICE}${nearest}?`,
    };
  });
}

/** Adds problems of unknown keys. They replace problems of the same place and rule that do not suggest a name. */
export function mergeUnknown(problems: Problem[], unknown: readonly Problem[]): void {
  for (const problem of unknown) {
    const { path, rule } = problem;
    const at = problems.findIndex((told) => told.path === path && told.rule === rule);
    if (at < 0) problems.push(problem);
    else problems[at] = problem;
  }
}

/** The name that differs least, if it differs in no more than a third of its letters. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  if (name.length > MAX_NAME) return undefined;
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of names) {
    if (candidate.length > MAX_NAME) continue;
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    const max = Math.max(1, Math.floor(candidate.length / 3));
    if (distance <= max && (best === undefined || distance < best.distance))
      best = { name: candidate, distance };
  }
  return best?.name;
}

/** Letters to insert, to take out, to replace, or to swap with their neighbour (optimal string alignment). */
function editDistance(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      let cost = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (same ? 0 : 1),
      );
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    before = last;
    last = row;
  }
  return last[other.length] ?? 0;
}
