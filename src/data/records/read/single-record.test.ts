/** Records by their ids, asked for at the same time. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { newId } from '../../../kernel/ids.ts';
import type { RecordStore } from '../store.ts';

const admin = system('test');

let kernel: RecordKernel;
let database: Database;
let records: RecordStore;
let sent: Statement[] = [];
const ids: string[] = [];
beforeAll(async () => {
  kernel = await openRecordKernel();
  await kernel.schemas.create(admin, {
    name: 'Note',
    fields: { text: 'String', secret: { type: 'String', select: false }, n: 'Number' },
  });
  for (let n = 0; n < 9; n += 1) {
    const made = await kernel.records.create(admin, 'Note', { text: `note ${n}`, secret: 's' });
    ids.push(made.id);
  }
  database = {
    ...kernel.database,
    query: (statement) => {
      sent.push(statement);
      return kernel.database.query(statement);
    },
  };
  records = kernel.limited(database, 60_000);
});
afterAll(() => kernel.close());
beforeEach(() => {
  sent = [];
});

const textOf = ({ json }: { readonly json: string }): unknown =>
  (JSON.parse(json) as { readonly text?: unknown }).text;

describe('records by their ids', () => {
  it('are one statement in one turn, each in its place, the same one twice, and none where there is none', async () => {
    const [first = '', second = ''] = ids;
    const asked = [second, newId(), first, second, 'no id', second.toUpperCase()];
    const settled = await Promise.allSettled(
      asked.map(async (id) => records.get(admin, 'Note', id)),
    );
    const found = settled.map((one) =>
      one.status === 'fulfilled' ? textOf(one.value) : codeOf(one.reason),
    );
    expect(found).toEqual([
      'note 1',
      'RECORD_NOT_FOUND',
      'note 0',
      'note 1',
      'RECORD_NOT_FOUND',
      'note 1',
    ]);
    expect(sent).toHaveLength(1);
  });

  it('answer what they answer one after the other', async () => {
    const alone = [];
    for (const id of ids) alone.push(await records.get(admin, 'Note', id));
    expect(sent).toHaveLength(9);
    sent = [];
    expect(await Promise.all(ids.map((id) => records.get(admin, 'Note', id)))).toEqual(alone);
    // Eight at most.
    expect(sent).toHaveLength(2);
  });

  it('are apart where other fields are asked for', async () => {
    const [id = ''] = ids;
    const only = new Map([['n', new Map()]]);
    const answers = await Promise.all([
      records.get(admin, 'Note', id),
      records.get(admin, 'Note', id, { only, exactly: true }),
      records.get(admin, 'Note', id, { only, exactly: true }),
    ]);
    expect(answers.map(({ json }) => Object.keys(JSON.parse(json) as object).length)).toEqual([
      6, 1, 1,
    ]);
    expect(sent).toHaveLength(2);
  });

  it('are read in the transaction that they are asked in', async () => {
    await kernel.database
      .transaction(async () => {
        const { id } = await records.create(admin, 'Note', { text: 'mine' });
        const both = await Promise.all([1, 2].map(() => records.get(admin, 'Note', id)));
        expect(both.map(textOf)).toEqual(['mine', 'mine']);
        throw new Error('undone');
      })
      .catch((error: Error) => expect(error.message).toBe('undone'));
  });

  it('are statements of their own where statements are traced', async () => {
    const traced = kernel.limited({ ...database, isTraced: true }, 60_000);
    await Promise.all(ids.slice(0, 3).map((id) => traced.get(admin, 'Note', id)));
    expect(sent).toHaveLength(3);
  });
});
