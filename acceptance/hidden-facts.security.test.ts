/** What answers must not give away, and requests that mean two things: the security review of 2026-11-22 (F11, F13, D6). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { parseRaw, sendRaw } from '../test/support/raw-http.ts';
import { waitFor } from '../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(() => platform.close());

describe('the default team', () => {
  beforeAll(async () => {
    await platform.admin.patch('/config/authentication', {
      teams: { enabled: true, enableDefaultTeam: true },
    });
  });

  it('is no directory of all users for whoever registers (F11)', async () => {
    const [guest, other] = [await platform.registerUser(), await platform.registerUser()];
    const team = (await guest.api.get('/authentication/teams')).body.teams.find(
      ({ isDefault }: Json) => isDefault,
    );
    const members = `/authentication/teams/${team._id}/members`;
    for (const path of [`${members}?limit=100`, `${members}?search=@`]) {
      const answer = await guest.api.get(path);
      expect(answer).toMatchObject({ status: 403, body: { code: 'TEAM_REFUSED' } });
      expect(answer.text).not.toContain(other.email);
    }
    const promoted = { members: [guest.userId], role: 'owner' };
    expectStatus(await platform.admin.patch(members, promoted), 200, 'promote');
    expect((await guest.api.get(`${members}?limit=100`)).text).toContain(other.email);
  });
});

describe('a unique field that is hidden', () => {
  beforeAll(async () => {
    const open = { enabled: true, authenticated: false };
    await platform.createSchema({
      name: 'Locker',
      fields: {
        label: { type: 'String', unique: true, required: true },
        pin: { type: 'String', unique: true, required: true, select: false },
        badge: { type: 'String', unique: true, required: true, access: { read: 'admin' } },
      },
      conduitOptions: {
        cms: {
          enabled: true,
          crudOperations: { create: open, read: open, update: open, delete: open },
        },
      },
    });
    expectStatus(
      await platform.client.post('/database/Locker', { label: 'a', pin: '1234', badge: 'x' }),
      200,
      'create',
    );
  });

  /** A record that clashes with none. */
  const fresh = (name: string) => ({ label: name, pin: `secret ${name}`, badge: `worn ${name}` });

  it.each([
    ['pin', { pin: '1234' }],
    ['badge', { badge: 'x' }],
  ])('is not named when a value is taken: %s (F13)', async (field, data) => {
    for (const answer of [
      await platform.client.post('/database/Locker', { ...fresh('b'), ...data }),
      await platform.client.post('/database/Locker/many', { docs: [{ ...fresh('c'), ...data }] }),
    ]) {
      expect(answer.body).toMatchObject({ status: 409, code: 'RECORD_NOT_UNIQUE' });
      expect(answer.body.errors).toBeUndefined();
      expect(answer.text).not.toContain(field);
    }
    const told = await platform.admin.post('/database/schemas/Locker/docs', {
      inputDocument: { ...fresh('d'), ...data },
    });
    expect(told.body).toMatchObject({
      code: 'RECORD_NOT_UNIQUE',
      errors: [{ path: `inputDocument.${field}` }],
    });
  });

  it('does not keep others from being named', async () => {
    const { body } = await platform.client.post('/database/Locker', { ...fresh('e'), label: 'a' });
    expect(body).toMatchObject({ code: 'RECORD_NOT_UNIQUE', errors: [{ path: 'label' }] });
  });
});

describe('a CSV export', () => {
  it('runs no formulas in spreadsheets when it is asked to be safe (F13)', async () => {
    await platform.createSchema({ name: 'Cell', fields: { text: { type: 'String' } } });
    await platform.client.post('/database/Cell', { text: "=cmd|'/C calc'!A0" });
    const path = '/database/schemas/Cell/docs/export?format=csv';
    expect((await platform.admin.get(path)).text).toContain("=cmd|'/C calc'!A0");
    expect((await platform.admin.get(`${path}&safe=spreadsheet`)).text).toContain(
      "'=cmd|'/C calc'!A0",
    );
    expect((await platform.admin.get(`${path}&safe=printer`)).status).toBe(400);
  });
});

describe('the Host header', () => {
  const ask = async (...lines: string[]) => {
    const request = ['GET /live HTTP/1.1', ...lines, 'Connection: close', '', ''].join('\r\n');
    return parseRaw(await sendRaw(platform.addresses.client, request));
  };

  it('is there once (F13)', async () => {
    expect((await ask('Host: a.example')).status).toBe(200);
    for (const lines of [
      [],
      ['Host: a.example', 'Host: b.example'],
      ['Host: a.example', 'hOST: a.example'],
    ]) {
      const { status, body } = await ask(...lines);
      expect([lines, status]).toEqual([lines, 400]);
      expect(JSON.parse(body)).toMatchObject({ name: 'INVALID_ARGUMENTS', status: 400 });
    }
  });
});

describe('a GET that changes something (D6)', () => {
  it.each([
    '/authentication/twoFa/generate',
    `/authentication/teams/invite/accept?invitationToken=${'x'.repeat(43)}`,
  ])('takes no cookie: %s', async (path) => {
    await platform.admin.patch('/config/authentication', {
      teams: { enabled: true, invites: { enabled: true } },
      twoFa: { enabled: true },
      accessTokens: { setCookie: true, cookieOptions: { secure: false } },
    });
    const { email, password } = await platform
      .registerUser()
      .catch(() => ({ email: 'c@example.com', password: 'Battery-Staple-17' }));
    const answer = await platform.client.post('/authentication/local', { email, password });
    const cookie = (answer.headers.get('set-cookie') ?? '').split(';', 1)[0] ?? '';
    expect(cookie).toContain('accessToken=');
    for (const site of ['same-origin', 'cross-site', 'none']) {
      const refused = await platform.client.get(path, {
        headers: { cookie, 'sec-fetch-site': site },
      });
      expect([site, refused.status, refused.body.code]).toEqual([site, 403, 'CSRF_REFUSED']);
    }
    await waitFor(async () => {
      const sent = await platform.client.get('/authentication/user', {
        headers: { cookie, 'sec-fetch-site': 'same-origin' },
      });
      return sent.status === 200;
    });
  });
});
