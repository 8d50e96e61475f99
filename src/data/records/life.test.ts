// Random lives of records against a book that is simple enough to be right: the trash, purges, earlier versions.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestServer } from '../../../test/support/database.ts';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../test/support/servers/fixtures.ts';
import { system } from '../../kernel/caller.ts';
import { errors, PenstockError } from '../../kernel/errors.ts';
import { newId } from '../../kernel/ids.ts';
import type { FieldMap } from '../schema/language/definition.ts';

const admin = system('test');

const actions = ['create', 'update', 'remove', 'restore', 'purge', 'turnBack'] as const;
type Action = (typeof actions)[number];

const step = fc.record({
  action: fc.constantFrom(...actions, 'create', 'update', 'update', 'remove'),
  at: fc.nat(20),
  key: fc.constantFrom('a', 'b', 'c', 'd'),
  n: fc.nat(5),
});

interface Content {
  key: string;
  n: number;
}

interface Entry extends Content {
  readonly id: string;
  version: number;
  deleted: boolean;
  readonly earlier: Map<number, Content>;
}

/** What a person would write down: who is there, who is away, and what they were. */
class Book {
  entries: Entry[] = [];

  /** Whether it can be done; if so it is written down, except for a create, whose id comes later. */
  does(action: Action, entry: Entry | undefined, content: Content): boolean {
    if (action === 'create') return this.isFree(content.key);
    if (!entry) return false;
    switch (action) {
      case 'update':
        return !entry.deleted && this.isFree(content.key, entry) && this.change(entry, content);
      case 'remove':
        return !entry.deleted && this.change(entry, { deleted: true });
      case 'restore':
        return (
          entry.deleted && this.isFree(entry.key, entry) && this.change(entry, { deleted: false })
        );
      case 'purge':
        if (entry.deleted) this.entries = this.entries.filter((other) => other !== entry);
        return entry.deleted;
      case 'turnBack': {
        const before = entry.earlier.get(content.n);
        return (
          !entry.deleted &&
          before !== undefined &&
          this.isFree(before.key, entry) &&
          this.change(entry, before)
        );
      }
    }
  }

  private isFree(key: string, except?: Entry): boolean {
    return this.entries.every((entry) => entry === except || entry.deleted || entry.key !== key);
  }

  private change(entry: Entry, change: Partial<Entry>): true {
    entry.earlier.set(entry.version, { key: entry.key, n: entry.n });
    for (const version of entry.earlier.keys())
      if (version <= entry.version - 4) entry.earlier.delete(version);
    Object.assign(entry, change, { version: entry.version + 1 });
    return true;
  }
}

const suite = (server: TestServer) => () => {
  let kernel: RecordKernel;
  let count = 0;
  beforeAll(async () => {
    kernel = await openRecordKernel(server);
  });
  afterAll(() => kernel.close());

  it('keeps what a simple book would', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const name = `Life${count++}`;
        const fields: FieldMap = {
          key: { type: 'String', required: true, unique: true },
          n: 'Number',
        };
        await kernel.schemas.create(admin, {
          name,
          fields,
          options: { softDelete: true, history: { max: 4 } },
        });
        const book = new Book();
        for (const { action, at, key, n } of steps) {
          const entry = book.entries[at % Math.max(1, book.entries.length)];
          const expected = book.does(action, entry, { key, n });
          const done = await perform(name, {
            action,
            id: entry?.id ?? newId(),
            input: { key, n },
            version: n,
          }).catch((error: unknown) => {
            if (error instanceof PenstockError && error.status < 500) return undefined;
            throw error;
          });
          expect([action, done !== undefined]).toEqual([action, expected]);
          if (action === 'create' && done)
            book.entries.push({ id: done, key, n, version: 0, deleted: false, earlier: new Map() });
        }
        await compare(name, book);
      }),
      { numRuns: 20 },
    );
  });

  const compare = async (name: string, book: Book): Promise<void> => {
    const list = async (deleted: boolean) => {
      const { documents, count: all } = JSON.parse(
        await kernel.records.list(admin, name, { deleted, limit: 1_000 }),
      );
      expect(all).toBe(documents.length);
      return documents.map(({ _id, key, n, __v }: Record<string, unknown>) => ({
        id: _id,
        key,
        n,
        version: __v,
      }));
    };
    const listedWith = (deleted: boolean) =>
      book.entries
        .filter((entry) => entry.deleted === deleted)
        .map(({ id, key, n, version }) => ({ id, key, n, version }));
    expect([await list(false), await list(true)]).toEqual([listedWith(false), listedWith(true)]);
    for (const { id, earlier } of book.entries) {
      const { versions } = JSON.parse(
        await kernel.records.history.list(admin, name, id, { limit: 1_000 }),
      );
      expect(versions.map(({ version }: { version: number }) => version)).toEqual(
        [...earlier.keys()].reverse(),
      );
      for (const [version, { key, n }] of earlier) {
        expect(
          JSON.parse(await kernel.records.history.get(admin, name, id, version)).document,
        ).toMatchObject({ key, n, __v: version });
      }
    }
  };

  const perform = async (
    name: string,
    {
      action,
      id,
      input,
      version,
    }: { action: Action; id: string; input: Record<string, unknown>; version: number },
  ): Promise<string> => {
    const { records } = kernel;
    switch (action) {
      case 'create':
        return (await records.create(admin, name, input)).id;
      case 'update':
        return (await records.update(admin, name, id, input)).id;
      case 'remove':
        await records.remove(admin, name, id);
        return id;
      case 'restore':
        return (await records.trash.restore(admin, name, id)).id;
      case 'purge':
        if ((await records.trash.purge(admin, name, [id])) === 0) throw errors.NOT_FOUND();
        return id;
      case 'turnBack':
        return (await records.history.restore(admin, name, id, version)).id;
    }
  };
};

describe('the trash and the history against a model', suite('embedded'));
await describeWithPostgres15(
  'the trash and the history against a model on PostgreSQL 15',
  suite('external15'),
);
