import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../../test/support/log.ts';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import { pruneHistory, purgeTrash } from './jobs.ts';

const admin = system('test');

describe('recurring work on records', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  it('destroys what was in the trash for long enough, and lets go of old versions', async () => {
    const options = { softDelete: { retainDays: 3 }, history: { retainDays: 3 } };
    await kernel.schemas.create(admin, { name: 'Aging', fields: { n: 'Number' }, options });
    await kernel.schemas.create(admin, {
      name: 'Forever',
      fields: { n: 'Number' },
      options: { softDelete: true, history: true },
    });
    const run = { signal: new AbortController().signal, log: silentLog };
    const left: Record<string, readonly [number, number]> = {};
    for (const name of ['Aging', 'Forever']) {
      const [kept, gone] = await kernel.records.createMany(admin, name, [{ n: 1 }, { n: 2 }]);
      await kernel.records.update(admin, name, kept?.id ?? '', { n: 3 });
      await kernel.records.remove(admin, name, gone?.id ?? '');
      await kernel.database.query({
        text: `update "app"."${name}" set "deletedAt" = "deletedAt" - interval '4 days'`,
      });
    }
    await kernel.database.query({
      text: `update penstock.record_history set at = at - interval '4 days'`,
    });
    await purgeTrash(kernel).handler({}, run);
    await pruneHistory(kernel).handler({}, run);
    for (const name of ['Aging', 'Forever']) {
      const trash = JSON.parse(await kernel.records.list(admin, name, { deleted: true }));
      const { rows } = await kernel.database.query({
        text: 'select 1 from penstock.record_history where schema = $1',
        values: [name],
      });
      left[name] = [trash.count, rows.length];
    }
    expect(left).toEqual({ Aging: [0, 0], Forever: [1, 2] });
  });
});
