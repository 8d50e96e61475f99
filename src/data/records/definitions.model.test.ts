// Random definitions with options, and records that fit them or do not, against a model of what is stored, answered and refused.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type FieldModel,
  fieldMapOf,
  fieldModel,
  type Sample,
  sampleOf,
} from '../../../test/support/random-fields.ts';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import type { RecordText } from './store.ts';

const admin = system('test');

interface Expected {
  readonly input: Record<string, unknown>;
  /** What the answer shows of the fields that the input names, or that the model says something about. */
  readonly seen: Record<string, unknown>;
  readonly problems: readonly string[];
}

function recordOf(models: readonly FieldModel[], samples: readonly Sample[]): Expected {
  const named = samples.map((sample, i) => [`f${i}`, sample, models[i]] as const);
  return {
    input: Object.fromEntries(
      named.flatMap(([name, { sent }]) => (sent === undefined ? [] : [[name, sent]])),
    ),
    seen: Object.fromEntries(
      named.flatMap(([name, { seen }, model]) => (model?.hidden ? [] : [[name, seen]])),
    ),
    problems: named.flatMap(([name, { problems }]) => problems.map((rest) => name + rest)).sort(),
  };
}

/** What became of a write: the record, or the places of its problems. */
async function outcomeOf(
  write: Promise<RecordText>,
): Promise<{ record?: Record<string, unknown>; problems: readonly string[] }> {
  try {
    return { record: JSON.parse((await write).json) as Record<string, unknown>, problems: [] };
  } catch (error) {
    const { status, errors = [] } = error as {
      status?: number;
      errors?: readonly { path: string }[];
    };
    if (status !== 400) throw error;
    return { problems: [...new Set(errors.map(({ path }) => path))].sort() };
  }
}

/** Without what the platform adds. */
const own = ({
  _id,
  __v,
  createdAt,
  updatedAt,
  ...fields
}: Record<string, unknown>): Record<string, unknown> => fields;

describe('records of random definitions', () => {
  let kernel: RecordKernel;
  let count = 0;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  const declare = async (models: readonly FieldModel[]): Promise<string> => {
    const name = `Random${count++}`;
    await kernel.schemas.create(admin, { name, fields: fieldMapOf(models) });
    return name;
  };
  const definition = fc.array(fieldModel, { minLength: 1, maxLength: 5 });

  it('are stored and answered as the model says, or refused with every place that is wrong', {
    timeout: 60_000,
  }, async () => {
    const tally = { stored: 0, refused: 0 };
    const property = fc.asyncProperty(definition, fc.gen(), async (models, gen) => {
      const name = await declare(models);
      const draw = (): Expected =>
        recordOf(
          models,
          models.map((model) => gen(() => sampleOf(model))),
        );
      const stored: Expected[] = [];
      for (let turn = 0; turn < 4; turn += 1) {
        const expected = draw();
        const { record, problems } = await outcomeOf(
          kernel.records.create(admin, name, expected.input),
        );
        expect({ input: expected.input, problems }).toEqual({
          input: expected.input,
          problems: expected.problems,
        });
        if (!record) continue;
        stored.push(expected);
        expect(own(record)).toEqual(expected.seen);
        const read = JSON.parse((await kernel.records.get(admin, name, String(record._id))).json);
        expect(read).toEqual(record);
      }
      const { documents } = JSON.parse(await kernel.records.list(admin, name));
      expect(documents.map(own)).toEqual(stored.map(({ seen }) => seen));
      expect(await kernel.events(name)).toHaveLength(stored.length);
      tally.stored += stored.length;
      tally.refused += 4 - stored.length;
    });
    await fc.assert(property, { numRuns: 40 });
    // Both must happen often, else this shows nothing.
    expect(Math.min(tally.stored, tally.refused)).toBeGreaterThan(20);
  });

  it('are changed in the fields that are named, and in no others', {
    timeout: 60_000,
  }, async () => {
    const flat = definition
      .map((models) => models.filter(({ kind }) => kind !== 'object'))
      .filter((models) => models.length > 0);
    const property = fc.asyncProperty(flat, fc.gen(), async (models, gen) => {
      const name = await declare(models);
      const draw = (): Expected =>
        recordOf(
          models,
          models.map((model) => gen(() => sampleOf(model))),
        );
      let first = draw();
      for (let turn = 0; turn < 20 && first.problems.length > 0; turn += 1) first = draw();
      if (first.problems.length > 0) return;
      const { id } = await kernel.records.create(admin, name, first.input);
      let now = first.seen;
      for (let turn = 0; turn < 3; turn += 1) {
        const samples = models.map((model) => gen(() => sampleOf(model)));
        // What a change leaves out stays as it is, required or not.
        const kept = samples.map((sample) =>
          sample.sent === undefined ? { ...sample, problems: [] } : sample,
        );
        const change = recordOf(models, kept);
        const { record, problems } = await outcomeOf(
          kernel.records.update(admin, name, id, change.input),
        );
        expect({ input: change.input, problems }).toEqual({
          input: change.input,
          problems: change.problems,
        });
        if (record)
          now = {
            ...now,
            ...Object.fromEntries(
              Object.entries(change.seen).filter(([key]) => key in change.input),
            ),
          };
        expect(own(JSON.parse((await kernel.records.get(admin, name, id)).json))).toEqual(now);
      }
    });
    await fc.assert(property, { numRuns: 25 });
  });
});
