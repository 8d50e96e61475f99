/** Several definitions as one change. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('several definitions', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  const define = (definitions: readonly Json[], more: Json = {}) =>
    platform.admin.post('/authorization/resources/many', { definitions, ...more });
  const names = async (): Promise<readonly string[]> =>
    (
      await platform.admin.get('/authorization/resources', { query: { limit: 100 } })
    ).body.resources.map(({ name }: Json) => name);
  const crew = {
    name: 'Crew',
    relations: { ship: ['Ship'], member: ['User'] },
    permissions: { sail: ['member', 'ship->sail'] },
  };
  const ship = {
    name: 'Ship',
    relations: { crew: ['Crew#member'] },
    permissions: { sail: ['crew'] },
  };

  it('may need one another, and are there together', async () => {
    const dry = expectStatus(await define([crew, ship], { dryRun: true }), 200, 'dry').body;
    expect(dry).toEqual({
      plan: [
        { name: 'Crew', change: 'create', warnings: [] },
        { name: 'Ship', change: 'create', warnings: [] },
      ],
      resources: [],
    });
    expect(await names()).not.toContain('Crew');
    const { resources } = expectStatus(await define([crew, ship]), 200, 'both').body;
    expect(resources.map(({ name, version }: Json) => [name, version])).toEqual([
      ['Crew', 0],
      ['Ship', 0],
    ]);
    const permissions = permissionsApi(platform.admin);
    await permissions.relate('User:a member Crew:x', 'Crew:x#member crew Ship:y');
    expect(await permissions.can('User:a sail Ship:y')).toBe(true);
  });

  it('have a version after each that may be given', async () => {
    const content = { relations: { owner: ['User'] }, permissions: { read: ['owner'] } };
    const define = (version: number) =>
      platform.admin.post('/authorization/resources', { name: 'Numbered', version, ...content });
    expect(await define(2_147_483_647)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'version', rule: 'maximum' }] },
    });
    expectStatus(await define(2_000_000_000), 200, 'the highest');
    const changed = { ...content, permissions: { read: ['owner'], edit: ['owner'] } };
    const patched = await platform.admin.patch('/authorization/resources/Numbered', changed);
    expect(expectStatus(patched, 200, 'patch').body.resourceDefinition.version).toBe(2_000_000_001);
    const together = await platform.admin.post('/authorization/resources/many', {
      definitions: [{ name: 'Numbered', ...content }],
    });
    expect(expectStatus(together, 200, 'many').body.resources[0].version).toBe(2_000_000_002);
  });

  it('with rules about what no record has are refused, in a dry run too', async () => {
    const ruled = {
      name: 'Ruled',
      relations: { owner: ['User'] },
      permissions: { read: [{ rule: 'record.a == 1' }] },
    };
    for (const dryRun of [true, false]) {
      const { status, body } = await define([crew, ruled], { dryRun });
      expect([dryRun, status, body.errors?.[0].path]).toEqual([
        dryRun,
        400,
        'definitions.1.permissions.read[0].rule',
      ]);
    }
  });

  it('change together or not at all', async () => {
    const changed = { ...crew, permissions: { ...crew.permissions, rest: ['member'] } };
    const wrong = { ...ship, permissions: { sail: ['nobody'] } };
    const refused = await define([changed, wrong]);
    expect([refused.status, refused.body.errors[0].path]).toEqual([
      400,
      'definitions.1.permissions.sail[0]',
    ]);
    const broken = await define([changed, { ...ship, relations: { crew: ['User'] } }]);
    expect([broken.status, broken.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    expect(broken.body.message).toMatch(/delete them first, or change this definition alone/);
    expect((await define([changed, changed])).status).toBe(400);
    expect((await define([{ ...changed, version: 3 }])).status).toBe(400);
    const crewNow = () => platform.admin.get('/authorization/resources/Crew');
    expect((await crewNow()).body.version).toBe(0);
    const { plan } = expectStatus(await define([changed, ship]), 200, 'changed').body;
    expect(plan.map(({ change }: Json) => change)).toEqual(['change', 'none']);
    expect((await crewNow()).body.version).toBe(1);
  });
});
