import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { idText, isRecordId, keyParts, partOf, platformKey, type RecordKey } from './record-key.ts';

describe('ids of records', () => {
  let test: OpenTestDatabase;
  beforeAll(async () => {
    test = await openTestDatabase();
  });
  afterAll(() => test.close());

  it.each<[RecordKey, string, boolean]>([
    [platformKey, '0190a0b0-0000-7000-8000-000000000001', true],
    [platformKey, '1', false],
    [['bigint'], '0', true],
    [['bigint'], '-7', true],
    [['bigint'], '9223372036854775807', true],
    [['bigint'], '9223372036854775808', false],
    [['bigint'], '007', false],
    [['bigint'], ' 1', false],
    [['bigint'], '1e3', false],
    [['text'], 'a~b', true],
    [['text'], 'a\0', false],
    [['text'], '\ud800', false],
    [['text'], 'x'.repeat(1_025), false],
    [['numeric'], '-1.50', true],
    [['numeric'], 'NaN', false],
    [['boolean'], 'true', true],
    [['boolean'], 't', false],
    [['date'], '2024-02-29', true],
    [['date'], '2023-02-29', false],
    [['timestamptz'], '2024-02-29T23:59:59.000001Z', true],
    [['timestamptz'], '2024-02-29T24:00:00.000000Z', false],
    [['timestamptz'], '2024-02-29', false],
    [['bigint', 'text'], '1~', true],
    [['bigint', 'text'], '1', false],
    [['bigint', 'text'], '1~a~b', false],
    [['bigint', 'text'], '1~a!1b', true],
    [[], 'x', false],
  ])('%j takes %j: %s', (key, id, fits) => {
    expect(isRecordId(key, id)).toBe(fits);
  });

  it('are put together and taken apart in the same way here and in the database', async () => {
    const text = fc.string({ unit: fc.constantFrom('~', '!', '0', '1', 'a', "'", '\\', 'é') });
    await fc.assert(
      fc.asyncProperty(text, text, fc.integer(), async (first, second, third) => {
        const key: RecordKey = ['text', 'bpchar', 'bigint'];
        const values = [first, second.trimEnd(), third];
        const { rows } = await test.database.query<{ id: string }>({
          text: `select ${idText(key, ['r.a', 'r.b', 'r.c'])} as id from (select $1::text as a, $2::bpchar as b, $3::bigint as c) r`,
          values,
        });
        const id = rows[0]?.id ?? '';
        expect(keyParts(key, id)).toEqual(values.map(String));
        const parts = key.map((type, i) => `(${partOf(type, '$1', i)})::text as p${i}`);
        const back = await test.database.query<Record<string, string>>({
          text: `select ${parts.join(', ')}`,
          values: [id],
        });
        expect(Object.values(back.rows[0] ?? {})).toEqual(values.map(String));
      }),
      { numRuns: 200 },
    );
  });
});
