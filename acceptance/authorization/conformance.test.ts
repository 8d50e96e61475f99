/** The public relationship cases through HTTP; `npm run conformance` asks the same of a fresh platform. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { conditionCases, readCases } from '../conformance/cases.ts';
import { runCase } from '../conformance/run.ts';

describe('the relationship cases', async () => {
  const cases = [...(await readCases()), ...(await readCases(conditionCases))];
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
  });
  afterAll(() => platform.close());

  it.each(cases.map((one) => ({ id: one.id, one })))('$id', async ({ one }) => {
    const { failures } = await runCase(platform.admin, one);
    expect(failures).toEqual([]);
  });
});
