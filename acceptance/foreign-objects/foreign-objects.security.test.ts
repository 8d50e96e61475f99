/**
 * Whatever names an object, by somebody to whom it does not belong: OWASP API1, broken object level authorization.
 * The list of operations is that of the running platform, so that none is left out; the owner makes the same calls
 * afterwards, so that each call is known to be one that works.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Api, Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { calls, leading, nothingOfOthers } from './calls.ts';
import type { Call } from './module-calls.ts';
import { createWorld, mark, type World } from './world.ts';

let platform: TestPlatform;
let world: World;
beforeAll(async () => {
  platform = await createTestPlatform();
  world = await createWorld(platform);
}, 120_000);
afterAll(() => platform?.close());

const make = (api: Api, { method, path, body, headers = {} }: Call): Promise<Answer<Json>> =>
  api.send(method, path, body, { headers });

/** Operations of users, by their names; those of schemas by method and path. */
async function operations(): Promise<readonly string[]> {
  const { paths } = (await platform.client.get('/swagger.json')).body;
  const named = Object.entries<Json>(paths).flatMap(([path, item]) =>
    Object.entries<Json>(item)
      .filter(([method]) => /^(?:get|post|put|patch|delete)$/.test(method))
      .map(([method, one]) => one['x-operation'] ?? `${method.toUpperCase()} ${path}`),
  );
  return [...new Set<string>(named)].filter((one) => !one.includes('/database/Holder')).sort();
}

/** All that Anna has, as the lists of Anna tell it. */
async function belongings({ anna, ids }: World): Promise<readonly string[]> {
  const lists = [
    '/authentication/user',
    '/authentication/teams',
    `/authentication/teams/${ids.team}/members`,
    `/authentication/teams/${ids.team}/invites`,
    '/authentication/identities',
    '/authentication/passkeys',
    '/authentication/biometrics/keys',
    '/authentication/apps',
    '/database/Note',
    `/authorization/shares/Note:${ids.note}`,
    '/chat/rooms',
    `/chat/rooms/${ids.room}/members`,
    `/chat/rooms/${ids.room}/messages`,
    `/chat/rooms/${ids.room}/bans`,
    '/chat/invitations/sent',
    '/notifications',
    '/storage/files?limit=200',
    '/storage/trash',
    `/storage/folder/${ids.folder}`,
    `/storage/file/${ids.file}/links`,
  ];
  const answers = await Promise.all(lists.map((path) => anna.api.get(path)));
  const sessions = (await anna.api.get('/authentication/sessions')).body.sessions;
  return [
    ...answers.map(({ status, text }, at) => `${lists[at]} ${status} ${text}`),
    ...sessions.map(({ _id, name }: Json) => `session ${_id} ${name}`),
  ];
}

/** What an answer to a stranger says wrongly; empty: nothing. */
function betrayed(call: Call, { status, text, body }: Answer<Json>, anna: TestUser): string {
  const isRefused = status === 401 || status === 403 || status === 404;
  const isEmpty = status === 200 && (hasNothing(body) || body.errors?.length > 0);
  const said = [mark, anna.email, anna.userId].filter(
    (one) => text.includes(one) && !JSON.stringify(call).includes(one),
  );
  if ((isRefused || isEmpty) && said.length === 0) return '';
  return `${call.method} ${call.path}: ${status} ${text.slice(0, 300)}`;
}

/** An answer whose lists are empty, and which says nothing else. */
const hasNothing = (body: Json): boolean =>
  Object.values<Json>(body).every((value) => value === 0 || value?.length === 0);

describe('what belongs to a user', () => {
  it('is named by operations that are all known here', async () => {
    const known = [...Object.keys(calls), ...nothingOfOthers].sort();
    expect(known).toEqual([...new Set(known)]);
    expect(await operations()).toEqual(known);
  });

  it.each(['a stranger', 'nobody'])('is neither seen nor changed by %s', async (who) => {
    const api = who === 'nobody' ? platform.client : world.eve.api;
    const before = await belongings(world);
    const problems: string[] = [];
    for (const requests of Object.values(calls))
      for (const call of requests(world))
        problems.push(betrayed(call, await make(api, call), world.anna));
    expect(problems.filter((one) => one !== '')).toEqual([]);
    expect(await belongings(world)).toEqual(before);
  });

  it('is not seen through what a stranger makes of their own', async () => {
    for (const call of leading(world)) {
      const answer = await make(world.eve.api, call);
      expect([400, 403, 404], `${call.path} ${answer.text}`).toContain(answer.status);
    }
    const { file, note } = world.ids;
    expect((await world.eve.api.get(`/storage/file/${file}`)).status).toBe(403);
    expect((await world.eve.api.get(`/database/Note/${note}`)).status).toBe(404);
  });

  it('is there for its owner by the same calls', async () => {
    const problems: string[] = [];
    for (const [operation, requests] of Object.entries(calls))
      for (const call of requests(world).filter(({ onlyRefused }) => !onlyRefused)) {
        const { status, text } = await make(call.by?.(world).api ?? world.anna.api, call);
        if (status >= 400 || text.includes('"errors"'))
          problems.push(
            `${operation} ${call.method} ${call.path}: ${status} ${text.slice(0, 200)}`,
          );
      }
    expect(problems).toEqual([]);
  });
});
