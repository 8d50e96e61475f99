/** Relations that take just what they name, arrows through sets, and long ids (docs/guides/permissions.md). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('relations that take just what they name', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    await permissions.define({
      name: 'Crew',
      version: 1,
      relations: { member: ['User'], lead: ['User'] },
      permissions: { rest: ['member'], steer: ['lead'] },
    });
    const partner = ['Crew#member'];
    await permissions.define({
      name: 'Ship',
      version: 1,
      relations: {
        guest: ['User'],
        pilot: { types: ['User'], strict: true },
        visitor: { types: ['User', 'User:*'], strict: true },
        partner: { types: partner, strict: true },
      },
      permissions: {
        board: ['guest', 'pilot', 'visitor'],
        steer: ['partner->steer'],
        all: { every: 'partner->steer' },
      },
    });
  });
  afterAll(() => platform.close());

  const write = (subject: string, relation: string, resource = 'Ship:a') =>
    platform.admin.post('/authorization/relations', { subject, relation, resource });

  it('take everybody of a type only where that is named; others go on as before', async () => {
    expect((await write('User:*', 'guest')).status).toBe(200);
    const refused = await write('User:*', 'pilot');
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'subject']);
    expect((await write('User:*', 'visitor')).status).toBe(200);
    expect((await write('User:x', 'pilot')).status).toBe(200);
  });

  it('become strict only when nothing is in the way', async () => {
    const strict = {
      relations: {
        guest: { types: ['User'], strict: true },
        pilot: { types: ['User'], strict: true },
        visitor: { types: ['User', 'User:*'], strict: true },
        partner: { types: ['Crew#member'], strict: true },
      },
      permissions: { board: ['guest', 'pilot', 'visitor'], steer: ['partner->steer'], all: [] },
    };
    const change = await platform.admin.patch('/authorization/resources/Ship', strict);
    expect([change.status, change.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    const odd = { ...strict, relations: { guest: { types: ['User'], strict: 'yes' } } };
    expect((await platform.admin.patch('/authorization/resources/Ship', odd)).status).toBe(400);
  });

  it('let arrows go through their sets, in checks, lists and who-can', async () => {
    await permissions.relate(
      'Crew:night#member partner Ship:a',
      'User:ann member Crew:night',
      'User:bea lead Crew:night',
      'Crew:day#member partner Ship:b',
      'Crew:night#member partner Ship:b',
    );
    const may = (who: string, action: string, ship: string) =>
      permissions.can(`User:${who} ${action} Ship:${ship}`);
    expect([await may('bea', 'steer', 'a'), await may('ann', 'steer', 'a')]).toEqual([true, false]);
    expect([await may('bea', 'all', 'a'), await may('bea', 'all', 'b')]).toEqual([true, false]);
    expect(await permissions.list('User:bea steer Ship')).toEqual(['Ship:a', 'Ship:b']);
    expect(await permissions.list('User:bea all Ship')).toEqual(['Ship:a']);
    expect(await permissions.who('steer Ship:b')).toEqual(['User:bea']);
    await permissions.unrelate('Crew:night#member partner Ship:b');
    expect(await may('bea', 'steer', 'b')).toBe(false);
  });

  it('is not so without the mark: such an arrow leads nowhere, and is refused', async () => {
    const answer = await platform.admin.post('/authorization/resources', {
      name: 'Boat',
      version: 1,
      relations: { partner: ['Crew#member'] },
      permissions: { steer: ['partner->steer'] },
    });
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, 'permissions.steer']);
  });

  it('ids have up to 1,024 characters; what no index can hold is refused', async () => {
    const [user, ship] = [`User:${'u'.repeat(1_024)}`, `Ship:${'s'.repeat(1_024)}`];
    expect((await write(user, 'pilot', ship)).status).toBe(200);
    expect(await permissions.can(`${user} board ${ship}`)).toBe(true);
    expect(await permissions.list(`${user} board Ship`)).toContain(ship);
    expect(await permissions.who(`board ${ship}`)).toEqual([user]);
    await permissions.unrelate(`${user} pilot ${ship}`);
    expect((await write(`${user}u`, 'pilot', ship)).status).toBe(400);
    const wide = `User:${'ü'.repeat(1_024)}`;
    expect((await write(wide, 'pilot', 'Ship:a')).status).toBe(200);
    const other = `User:${'ü'.repeat(1_023)}z`;
    for (const user of [wide, other])
      expect((await write(user, 'pilot', 'Ship:wide')).status).toBe(200);
    const page = async (cursor?: string) => {
      const query = {
        resource: 'Ship:wide',
        permission: 'board',
        limit: '1',
        ...(cursor && { cursor }),
      };
      const answer = await platform.admin.get('/authorization/permissions/subjects', { query });
      expect(answer.status, answer.text).toBe(200);
      return answer.body;
    };
    const first = await page();
    expect(first.subjects).toEqual([other]);
    expect((await page(first.cursor)).subjects).toEqual([wide]);
    const refused = await write(wide, 'pilot', ship);
    expect([refused.status, refused.body.errors[0].rule]).toEqual([400, 'length']);
  });
});
