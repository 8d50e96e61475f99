/** Many questions of one subject: the answers of single ones, for the work of few. */
import { describe, expect, it } from 'vitest';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { indexTuples, type Tuple } from '../model/tuple.ts';
import { evaluate, evaluateTogether } from './evaluate.ts';
import type { Evaluation } from './graph.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Folder',
      relations: {
        parent: ['Folder'],
        owner: ['User'],
        guest: ['User with here'],
        banned: ['User'],
      },
      permissions: {
        view: ['owner', 'guest', 'parent->view'],
        read: { exclusion: { base: ['view'], subtract: ['banned'] } },
      },
      conditions: { here: { params: { place: 'string' }, rule: 'place == "here"' } },
    },
  ].map(parseDefinition),
  0,
);
const LEVELS = 100;

/** `f0` is below `f1`, and so on, and the last below the first again; Ann owns the last, and Bob visits it. */
const tuple = (subject: string, relation: string, id: string, condition?: string): Tuple => ({
  subject: parseSubject(subject, 'subject'),
  relation,
  resource: parseObject(`Folder:${id}`, 'resource'),
  condition,
});
const folders = Array.from({ length: LEVELS }, (_, i) => `f${i}`);
const tuples = [
  ...folders.map((id, i) => tuple(`Folder:f${(i + 1) % LEVELS}`, 'parent', id)),
  tuple('User:ann', 'owner', `f${LEVELS - 1}`),
  tuple('User:ann', 'banned', 'f7'),
  tuple('User:bob', 'guest', `f${LEVELS - 1}`, 'here'),
];

/** With the number of times that tuples were looked up. */
function counted(subject: string) {
  const index = indexTuples(tuples);
  let lookups = 0;
  const evaluation: Evaluation = {
    model,
    tuples: {
      of: (resource, relation) => {
        lookups += 1;
        return index.of(resource, relation);
      },
    },
    subject: parseSubject(subject, 'subject'),
    context: {},
    now: new Date().toISOString(),
    rules: { of: () => expect.unreachable('there are no rules') },
  };
  return { evaluation, lookups: () => lookups };
}

describe('questions of one subject', () => {
  const name = model.action('Folder', 'read') ?? expect.unreachable('no such action');
  const placesOf = (ids: readonly string[]) =>
    ids.map((id) => ({ object: parseObject(`Folder:${id}`, 'resource'), name }));

  it.each(['User:ann', 'User:bob', 'User:eve'])(
    'have the answers of single ones: %s',
    (subject) => {
      for (const ids of [folders, folders.toReversed()]) {
        const { evaluation } = counted(subject);
        const places = placesOf(ids);
        const together = evaluateTogether(evaluation, places);
        for (const place of places) {
          const { sure, possible, missing } = evaluate(evaluation, place.object, place.name);
          expect(together.get(place)).toMatchObject({ sure, possible });
          if (sure !== possible) expect(together.get(place)?.missing).toEqual(missing);
        }
      }
    },
  );

  it('resolve once what several of them hang on', () => {
    const single = counted('User:ann');
    for (const { object, name } of placesOf(['f0'])) evaluate(single.evaluation, object, name);
    for (const ids of [folders, folders.toReversed()]) {
      const all = counted('User:ann');
      evaluateTogether(all.evaluation, placesOf(ids));
      expect(all.lookups()).toBeLessThan(6 * single.lookups());
    }
  });
});
