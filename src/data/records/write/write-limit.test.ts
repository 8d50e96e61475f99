import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import type { FieldMap, PlatformOptions } from '../../schema/language/definition.ts';
import { WRITE_LIMIT } from './cascade.ts';

const platform = system('test');

describe('what hangs on a record that is deleted', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  /** A record with more records on it than one request may touch. */
  async function crowded(
    name: string,
    onDelete: 'cascade' | 'setNull',
    options: PlatformOptions = {},
  ): Promise<string> {
    const child: FieldMap = { parent: { type: 'Relation', model: name, onDelete } };
    await kernel.schemas.create(platform, { name, fields: { n: 'Number' }, options });
    await kernel.schemas.create(platform, { name: `${name}Child`, fields: child, options });
    const { id } = await kernel.records.create(platform, name, {});
    const rows = `select gen_random_uuid(), $1 from generate_series(1, ${WRITE_LIMIT + 1})`;
    await kernel.database.query({
      text: `insert into "app"."${name}Child" ("_id", "parent") ${rows}`,
      values: [id],
    });
    return id;
  }

  const attached = async (name: string): Promise<number> => {
    const { rows } = await kernel.database.query<{ n: number }>({
      text: `select count(*)::integer as n from "app"."${name}Child" where "parent" is not null and "__v" = 0`,
    });
    return rows[0]?.n ?? 0;
  };

  it.each([
    ['Cascades', 'cascade', {}],
    ['Unlinks', 'setNull', {}],
    ['Trashes', 'cascade', { softDelete: true }],
  ] as const)(
    'has a bound for callers, and nothing has happened beyond it: %s',
    async (name, onDelete, options) => {
      const id = await crowded(name, onDelete, options);
      const refused = {
        status: 409,
        code: 'DEPENDANT_LIMIT_EXCEEDED',
        message: expect.stringContaining(`${name}Child`),
      };
      await expect(kernel.records.remove(anonymous, name, id)).rejects.toMatchObject(refused);
      expect(await attached(name)).toBe(WRITE_LIMIT + 1);
      expect((await kernel.records.get(anonymous, name, id)).version).toBe(0);
      // The platform's own work goes on.
      await kernel.records.remove(platform, name, id);
      expect(await attached(name)).toBe(0);
    },
  );
});
