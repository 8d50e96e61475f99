/** Records with row authorization by their ids: read together with what says who may read them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system, type UserCaller } from '../../../kernel/caller.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { newId } from '../../../kernel/ids.ts';
import type { PermissionEngine } from '../../../kernel/permissions.ts';
import type { CheckKind } from '../../../kernel/record-check.ts';
import type { RecordStore } from '../store.ts';

const admin = system('test');
const [ada = '', bob = '', eve = ''] = [newId(), newId(), newId()];
const user = (userId: string): UserCaller => ({
  ...{ kind: 'user', userId, sessionId: newId(), authenticatedAt: 0 },
  ...{ complete: true, clientId: '' },
});

/** What is written about a record are ids of its readers; who asks by another value asks by another statement. */
const kindOf = (key: string): CheckKind => ({
  key,
  text: ({ id, values: [value] }) => ({
    state: { query: `select (select ${value}::text) as value`, columns: { value: 'text' } },
    written: {
      query: `select f.reader from readers f where f.record = ${id} limit 3`,
      columns: { reader: 'uuid' },
    },
  }),
});
const [kind, other] = [kindOf('one'), kindOf('other')];

describe('records that are read with what says who may read them', () => {
  let kernel: RecordKernel;
  let database: Database;
  let records: RecordStore;
  let sent: Statement[] = [];
  /** What each check was given. */
  let found: unknown[] = [];
  let check: { readonly kind: CheckKind; readonly value: string; readonly open?: true } | undefined;
  const ids: string[] = [];

  const engine: Partial<PermissionEngine> = {
    recordCheck: ({ userId }: UserCaller) =>
      check && {
        kind: check.kind,
        values: [check.value],
        decide({ state, written }) {
          found.push((state as { value: string }).value);
          const readers = written.map((row) => (row as { reader: string }).reader);
          return check?.open ? undefined : readers.includes(userId);
        },
      },
    predicate: async ({ userId }: UserCaller) => ({
      shape: 'by predicate',
      compile: (id: string, next: (value: unknown) => string) =>
        `exists (select from readers f where f.record = ${id} and f.reader = ${next(userId)}::uuid)`,
    }),
  } as Partial<PermissionEngine>;

  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, {
      name: 'Note',
      fields: { text: 'String', secret: { type: 'String', select: false }, n: 'Number' },
      options: { cms: { enabled: true }, authorization: { enabled: true } },
    });
    for (let n = 0; n < 10; n += 1)
      ids.push((await kernel.records.create(admin, 'Note', { text: `note ${n}`, n })).id);
    await kernel.database.query({ text: 'create table readers (record uuid, reader uuid)' });
    const readers = ids.map((id, n) => `('${id}', '${n % 2 === 0 ? ada : bob}')`).join(', ');
    const text = `insert into readers values ${readers}, ('${ids[1]}', '${ada}')`;
    await kernel.database.query({ text });
    database = {
      ...kernel.database,
      query: (statement) => {
        sent.push(statement);
        return kernel.database.query(statement);
      },
    };
    kernel.permissions.engine = engine as PermissionEngine;
    records = kernel.limited(database, 60_000);
  });
  afterAll(() => kernel.close());
  beforeEach(() => {
    [sent, found, check] = [[], [], { kind, value: 'a' }];
  });

  const get = async (userId: string, id = '', store = records): Promise<unknown> =>
    store.get(user(userId), 'Note', id).then(
      ({ json }) => (JSON.parse(json) as { readonly text: string }).text,
      (error: unknown) => codeOf(error),
    );
  const no = 'RECORD_NOT_FOUND';

  it('are one statement for all who ask in one turn, each answered for themselves', async () => {
    const [first = '', second = ''] = ids;
    const answers = await Promise.all([
      ...[get(ada, first), get(bob, first), get(eve, first), get(ada, second)],
      ...[get(bob, second.toUpperCase()), get(ada, newId()), get(ada, 'no id'), get(eve, second)],
    ]);
    expect(answers).toEqual(['note 0', no, no, 'note 1', 'note 1', no, no, no]);
    expect(sent).toHaveLength(1);
    expect(found).toEqual(Array.from({ length: 6 }, () => 'a'));
  });

  it('answer what they answer one after the other, with the fields that are asked for', async () => {
    const only = new Map([['n', new Map()]]);
    const read = async (id: string): Promise<string> =>
      (await records.get(user(id === ids[1] ? ada : bob), 'Note', id, { only, exactly: true }))
        .json;
    const odd = ids.filter((_, n) => n % 2 === 1);
    const alone: string[] = [];
    for (const id of odd) alone.push(await read(id));
    expect(alone).toEqual([1, 3, 5, 7, 9].map((n) => JSON.stringify({ n })));
    expect(sent).toHaveLength(5);
    expect(await Promise.all(odd.map(read))).toEqual(alone);
    expect(sent).toHaveLength(6);
  });

  it('are apart where the checks differ, and where statements are traced', async () => {
    const [id = ''] = ids;
    const asking = [
      { kind, value: 'a' },
      { kind, value: 'b' },
      { kind: other, value: 'b' },
    ];
    const reads = asking.map((one) => {
      check = one;
      return get(ada, id);
    });
    expect(await Promise.all(reads)).toEqual(['note 0', 'note 0', 'note 0']);
    expect(sent).toHaveLength(3);
    const traced = kernel.limited({ ...database, isTraced: true }, 60_000);
    await Promise.all([get(ada, id, traced), get(bob, id, traced)]);
    expect(sent).toHaveLength(5);
  });

  it('are read by the predicate where that says more, and in transactions', async () => {
    const [id = ''] = ids;
    check = { kind, value: 'a', open: true };
    expect(await Promise.all([get(ada, id), get(bob, id)])).toEqual(['note 0', no]);
    expect([sent.length, found.length]).toEqual([3, 2]);
    check = undefined;
    expect(await Promise.all([get(ada, id), get(bob, id)])).toEqual(['note 0', no]);
    check = { kind, value: 'a' };
    await kernel.database.transaction(async () => {
      expect([await get(ada, id), await get(bob, id)]).toEqual(['note 0', no]);
    });
    expect(found).toHaveLength(2);
  });
});
