/** Explanations come to what checks come to, and what they say would allow something does (by the naive evaluator). */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildDataSet,
  dataSetSeed,
  objectsOf,
} from '../../../../../test/support/permission-data/data-sets.ts';
import {
  type NaiveDataSet,
  naiveCheck,
} from '../../../../../test/support/permission-data/naive.ts';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import { formatTuple, type Tuple } from '../../model/tuple.ts';
import { createEngine } from '../create-engine.ts';
import type { AskOptions, Engine, Question, TupleSuggestion } from '../engine.ts';

/** Data sets of these numbers hold tuples alone. */
const WITHOUT_RECORDS = 3;
const DATA_SETS = 6;
const RUNS = 6;

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());

const seen = { allowed: 0, denied: 0, undecided: 0, suggested: 0 };

const outcomeOfCheck = async (engine: Engine, question: Question, options: AskOptions) => {
  try {
    const [allowed] = await engine.check(table.database, [question], options);
    return allowed ? 'allowed' : 'denied';
  } catch (error) {
    if ((error as { code?: string }).code === 'CONTEXT_MISSING') return 'undecided';
    throw error;
  }
};

/** The tuples as the suggestion would have them. */
function changed(tuples: readonly Tuple[], { kind, tuple }: TupleSuggestion): readonly Tuple[] {
  const others = tuples.filter((one) => formatTuple(one) !== formatTuple(tuple));
  return kind === 'delete' ? others : [...others, { ...tuple, condition: undefined }];
}

async function compare(
  engine: Engine,
  naive: NaiveDataSet,
  question: Question,
  context: Readonly<Record<string, unknown>>,
): Promise<void> {
  const told = await engine.explain(table.database, question, { context, suggest: true });
  expect(told.outcome).toBe(await outcomeOfCheck(engine, question, { context }));
  expect(told.allowed).toBe(told.outcome === 'allowed');
  expect(told.missing.length > 0).toBe(told.outcome === 'undecided');
  expect(told.outcome === 'denied' || told.wouldAllow.length === 0).toBe(true);
  seen[told.outcome] += 1;
  for (const suggestion of told.wouldAllow) {
    // These data sets have no records, and so no rules.
    if (suggestion.kind === 'rule') throw new Error('a rule about a record');
    const tuples = changed(naive.tuples, suggestion);
    const { subject, action, resource } = question;
    const label = `${suggestion.kind} ${formatTuple(suggestion.tuple)}`;
    // The naive evaluator knows no condition without a definition that names it.
    if (suggestion.kind === 'condition') continue;
    expect([label, naiveCheck({ ...naive, context, tuples }, subject, action, resource)]).toEqual([
      label,
      true,
    ]);
    seen.suggested += 1;
  }
}

describe('explanations', () => {
  it('agree with checks in every outcome, and with what they promise', {
    timeout: 120_000,
  }, async () => {
    const run = async (seeds: Parameters<typeof buildDataSet>[0][]) => {
      const dataSets = seeds.map((seed, i) => {
        const number = i * WITHOUT_RECORDS;
        return { number, ...buildDataSet(seed, number) };
      });
      await table.replace(dataSets.flatMap(({ tuples }) => tuples));
      for (const { number, ...dataSet } of dataSets) {
        const engine = createEngine(dataSet.model);
        const naive = { ...dataSet, context: {}, now: new Date().toISOString() };
        for (const question of questionsOf(number))
          for (const context of [{}, { place: 'home' }])
            await compare(engine, naive, question, context);
      }
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(dataSetSeed, { minLength: DATA_SETS, maxLength: DATA_SETS, size: 'max' }),
        run,
      ),
      { numRuns: RUNS, endOnFailure: true },
    );
    expect(Math.min(seen.allowed, seen.denied, seen.suggested)).toBeGreaterThan(10);
  });
});

function questionsOf(dataSet: number): readonly Question[] {
  const [user] = objectsOf(dataSet, 'User');
  return objectsOf(dataSet, 'Doc').flatMap((resource) =>
    ['a0', 'a1'].map((action) => ({
      subject: { ...(user ?? resource), relation: '' },
      action,
      resource,
    })),
  );
}
