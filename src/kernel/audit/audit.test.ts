import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { silentLog } from '../../../test/support/log.ts';
import { type AdminCaller, system } from '../caller.ts';
import { sql } from '../database/sql.ts';
import type { Audit, AuditEntry } from './audit.ts';
import { createAudit } from './create-audit.ts';
import { migrations } from './migrations.ts';

const admin: AdminCaller = {
  kind: 'admin',
  via: 'token',
  adminId: 'a-1',
  username: 'eva',
  isSuperAdmin: true,
  tokenPrefix: 'cdt_abcd1234',
};

const entry = (more: Partial<AuditEntry> = {}): AuditEntry => ({
  caller: admin,
  action: 'core.admin.create',
  outcome: 'success',
  ...more,
});

describe('the audit log', () => {
  let opened: OpenTestDatabase;
  let audit: Audit;

  beforeAll(async () => {
    opened = await openTestDatabase({ migrations: [{ owner: 'kernel/audit', migrations }] });
    audit = createAudit(opened.database, silentLog);
  });
  afterAll(() => opened.close());

  test('is listed by number, not by its text', async () => {
    for (let i = 1; i <= 12; i += 1)
      await audit.record(entry({ action: 'ordered', target: String(i) }));
    const listed = await audit.list({ action: 'ordered' }, { skip: 0, limit: 12 });
    expect(listed.map(({ target }) => target)).toEqual(
      Array.from({ length: 12 }, (_, i) => String(12 - i)),
    );
  });

  test('says who did what, to what, from where, and how it ended', async () => {
    await audit.record(
      entry({
        target: 'id:1',
        status: 200,
        address: '192.0.2.7',
        userAgent: 'curl',
        requestId: 'r-1',
        changes: { body: { name: 'Eva' } },
      }),
    );
    const [row] = await audit.list({ target: 'id:1' }, { skip: 0, limit: 1 });
    expect(row).toMatchObject({
      actor: { type: 'admin', id: 'a-1', name: 'eva', tokenPrefix: 'cdt_abcd1234' },
      ip: '192.0.2.7',
      action: 'core.admin.create',
      outcome: 'success',
      status: 200,
      changes: { body: { name: 'Eva' } },
    });
  });

  test('keeps no secret, by name and by form', async () => {
    await audit.record(
      entry({
        target: 'secrets',
        changes: { body: { password: 'hunter2hunter2', note: 'Bearer abcdefgh.ijkl' } },
      }),
    );
    const text = JSON.stringify(await audit.list({ target: 'secrets' }, { skip: 0, limit: 10 }));
    expect(text).not.toContain('hunter2');
    expect(text).not.toContain('abcdefgh');
  });

  test('keeps addresses without the values of their queries, and answers older rows without them', async () => {
    const url = 'https://hooks.example/in?token=T0pSecret&to=5';
    const masked = 'https://hooks.example/in?token=[redacted]&to=[redacted]';
    await audit.record(entry({ target: 'address', changes: { body: { url, events: ['a'] } } }));
    await opened.database.query({
      text: `insert into penstock.audit_log (actor_type, action, target, outcome, changes) values ('admin', 'prior', $1, 'success', $2::jsonb)`,
      values: [`address ${url}`, JSON.stringify({ list: [{ url }, 1, null] })],
    });
    const { rows } = await opened.database.query<{ changes: unknown }>({
      text: `select changes from penstock.audit_log where target = 'address'`,
    });
    expect(rows).toEqual([{ changes: { body: { url: masked, events: ['a'] } } }]);
    const listed = await audit.list({ target: 'address' }, { skip: 0, limit: 2 });
    expect(listed.map(({ target, changes }) => ({ target, changes }))).toEqual([
      { target: `address ${masked}`, changes: { list: [{ url: masked }, 1, null] } },
      { target: 'address', changes: { body: { url: masked, events: ['a'] } } },
    ]);
    const read: unknown[] = [];
    for await (const row of audit.read({ target: 'address' })) read.push(row);
    expect(JSON.stringify(read)).not.toContain('T0pSecret');
  });

  const changesAt = async (target: string): Promise<unknown> =>
    (await audit.list({ target }, { skip: 0, limit: 1 }))[0]?.changes;

  test('keeps the places of what was changed, whatever surrounds them', async () => {
    const padding = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => [`field${i}`, { description: 'x'.repeat(3_000) }]),
    );
    await audit.record(
      entry({
        target: 'padded',
        changes: {
          body: {
            padding,
            options: { open: true },
            more: ['y'.repeat(70_000), { deep: { er: 1 } }],
          },
        },
      }),
    );
    const changes = await changesAt('padded');
    expect(changes).toMatchObject({
      body: {
        options: { open: true },
        more: [expect.stringMatching(/^y+\.\.\.$/), { deep: { er: 1 } }],
      },
    });
    expect(changes).toHaveProperty(
      'body.padding.field59.description',
      expect.stringMatching(/^x{100,}\.\.\.$/),
    );
    expect(JSON.stringify(changes).length).toBeLessThan(40_000);
  });

  test('bounds what is too wide or too deep', async () => {
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`key${i}`, i]));
    const deep = Array.from({ length: 1_000 }).reduce<unknown>(
      (inner) => [inner, 'x'.repeat(100)],
      'end',
    );
    await audit.record(
      entry({
        target: 'wide',
        changes: { wide, deep, list: Array.from({ length: 50_000 }, String), last: 'seen' },
      }),
    );
    const changes = await changesAt('wide');
    expect(changes).toMatchObject({
      wide: { key0: 0, key99999: 99_999, '[omitted]': expect.stringMatching(/^\d+ more$/) },
      last: 'seen',
    });
    expect(JSON.stringify(changes).length).toBeLessThan(100_000);
  });

  // Reliability review 2026-11-22, B7.
  test('is written whatever the texts are, and wherever they are cut', async () => {
    const half = '\ud83d';
    await audit.record(
      entry({
        target: 'nul',
        changes: {
          text: 'a\u0000b',
          escaped: '\\u0000',
          [`k${half}`]: [half, `${'x'.repeat(8_191)}😀`],
        },
      }),
    );
    expect(await changesAt('nul')).toEqual({
      text: 'ab',
      escaped: '\\u0000',
      'k\ufffd': ['\ufffd', `${'x'.repeat(8_191)}...`],
    });
    for (const units of [511, 512, 1_023, 1_024]) {
      const text = `${'x'.repeat(units)}😀\u0000${half}`;
      await audit.record(
        entry({ action: 'cut', target: text, userAgent: text, requestId: text, address: text }),
      );
    }
    expect(await audit.count({ action: 'cut' })).toBe(4);
  });

  test('is filtered by actor, the beginning of action and target, outcome and time', async () => {
    await audit.record(entry({ action: 'find.me', target: 'f:1', outcome: 'refused' }));
    await audit.record(entry({ action: 'find.me.too', target: 'f:2', caller: system('a test') }));
    expect(await audit.count({ action: 'find.me' })).toBe(2);
    expect(await audit.count({ action: 'find.me', actor: 'eva' })).toBe(1);
    expect(await audit.count({ action: 'find.me', actor: 'a test' })).toBe(1);
    expect(await audit.count({ target: 'f:', outcome: 'refused' })).toBe(1);
    expect(await audit.count({ target: '%' })).toBe(0);
    expect(await audit.count({ action: 'find.me', from: new Date(Date.now() + 60_000) })).toBe(0);
    expect(await audit.count({ action: 'find.me', to: new Date(Date.now() + 60_000) })).toBe(2);
  });

  test('is a part of the transaction it tells of', async () => {
    const undone = opened.database.transaction(async () => {
      await audit.record(entry({ target: 'undone' }));
      throw new Error('no');
    });
    await expect(undone).rejects.toThrow('no');
    expect(await audit.count({ target: 'undone' })).toBe(0);
  });

  describe('together with some work', () => {
    const note = (name: string) => sql`insert into penstock.test_notes (name) values (${name})`;
    const transactionOf = async (table: string, name: string) => {
      const text =
        table === 'notes'
          ? sql`select xmin::text from penstock.test_notes where name = ${name}`
          : undefined;
      const { rows } = await opened.database.query<{ xmin: string }>(
        text ?? sql`select xmin::text from penstock.audit_log where target = ${name}`,
      );
      return rows.map(({ xmin }) => xmin);
    };
    const along = (target: string, work: () => Promise<unknown>) =>
      audit.recordWith(
        () => entry({ target }),
        async (row) => {
          await work();
          return row.isWritten();
        },
      );

    beforeAll(() => opened.database.query(sql`create table penstock.test_notes (name text)`));

    test('is in the transaction of the first change, also of one that is a statement of its own', async () => {
      const { database } = opened;
      expect(await along('one', () => database.query(note('one')))).toBe(true);
      expect(
        await along('several', async () => {
          await database.query(sql`select 1`);
          await database.transaction(() => database.query(note('several')));
          await database.transaction(() => database.query(note('later')));
        }),
      ).toBe(true);
      expect(await transactionOf('audit', 'one')).toEqual(await transactionOf('notes', 'one'));
      expect(await transactionOf('audit', 'several')).toEqual(
        await transactionOf('notes', 'several'),
      );
    });

    test('is not there when the change is not', async () => {
      const { database } = opened;
      const undone = along('undone along', () =>
        database.transaction(async () => {
          await database.query(note('undone along'));
          throw new Error('no');
        }),
      );
      await expect(undone).rejects.toThrow('no');
      expect(
        await along('reading', () => database.transaction(() => database.query(sql`select 1`))),
      ).toBe(false);
      expect(await audit.count({ target: 'undone along' })).toBe(0);
      expect(await audit.count({ target: 'reading' })).toBe(0);
    });

    test('goes with the next change when the first does not commit, and is written once', async () => {
      const { database } = opened;
      const failing = () =>
        database
          .transaction(async () => {
            await database.query(note('failing'));
            throw new Error('no');
          })
          .catch(() => undefined);
      expect(
        await along('again', async () => {
          await failing();
          await Promise.all(
            Array.from({ length: 20 }, (_, i) => database.query(note(`parallel ${i}`))),
          );
        }),
      ).toBe(true);
      expect(await audit.count({ target: 'again' })).toBe(1);
    });

    test('leaves rows that the work itself writes alone', async () => {
      expect(await along('mine', () => audit.record(entry({ target: 'theirs' })))).toBe(false);
      expect(await audit.count({ target: 'theirs' })).toBe(1);
    });
  });

  test.each([
    ['changed', sql`update penstock.audit_log set outcome = 'failed'`],
    ['deleted', sql`delete from penstock.audit_log`],
    ['truncated', sql`truncate penstock.audit_log`],
  ])('cannot be %s', async (_word, statement) => {
    await audit.record(entry());
    await expect(opened.database.query(statement)).rejects.toThrow(/append-only/);
  });

  test('cannot be thinned out by who claims to purge', async () => {
    await audit.record(entry({ target: 'of today' }));
    const purge = opened.database.transaction(async () => {
      await opened.database.query(sql`select set_config('penstock.purging_audit', 'on', true)`);
      await opened.database.query(sql`delete from penstock.audit_log where target = 'of today'`);
    });
    await expect(purge).rejects.toThrow(/append-only/);
    expect(await audit.count({ target: 'of today' })).toBe(1);
  });

  test('loses what is older than the time it is kept for, and nothing else', async () => {
    await opened.database.query(sql`
      insert into penstock.audit_log (at, actor_type, action, outcome) select now() - interval '100 days', 'system', 'old', 'success' from generate_series(1, 1500)`);
    await audit.record(entry({ action: 'young' }));
    expect(await audit.purge(90)).toBe(1_500);
    expect(await audit.count({ action: 'old' })).toBe(0);
    expect(await audit.count({ action: 'young' })).toBe(1);
  });

  test('is purged by two nodes at once, and nothing else goes', async () => {
    await opened.database.query(sql`
      insert into penstock.audit_log (at, actor_type, action, outcome)
      select now() - make_interval(days => i % 200), 'system', 'any age', 'success' from generate_series(0, 5999) i`);
    const other = await opened.openAgain();
    const nodes = [audit, createAudit(other, silentLog)];
    const purged = await Promise.all(nodes.map((node) => node.purge(100)));
    expect(purged.reduce((sum, count) => sum + count, 0)).toBe(3_000);
    expect(Math.min(...purged)).toBeGreaterThan(0);
    expect(await audit.count({ action: 'any age' })).toBe(3_000);
  });

  test('says until when it is complete, while changes are being made', async () => {
    const written = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const begun = new Date();
    const change = opened.database.transaction(async () => {
      await audit.record(entry({ target: 'slow' }));
      written.resolve();
      await end.promise;
    });
    await written.promise;
    await audit.record(entry({ target: 'quick' }));
    const until = await audit.completeUntil();
    expect(await audit.count({ target: 'slow' })).toBe(0);
    end.resolve();
    await change;
    const [slow] = await audit.list({ target: 'slow' }, { skip: 0, limit: 1 });
    expect(until?.getTime()).toBeLessThan(slow?.at.getTime() ?? 0);
    expect(until?.getTime()).toBeGreaterThan(begun.getTime() - 2_000);
  });

  test('is read whole, in order, in batches', async () => {
    await opened.database.query(sql`
      insert into penstock.audit_log (actor_type, action, target, outcome) select 'system', 'batch', i::text, 'success' from generate_series(1, 2500) i`);
    const targets: (string | null)[] = [];
    for await (const { target } of audit.read({ action: 'batch' })) targets.push(target);
    expect(targets).toEqual(Array.from({ length: 2_500 }, (_, i) => String(i + 1)));
  });
});
