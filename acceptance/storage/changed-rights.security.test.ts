/**
 * Files whose rights and contents change while somebody reads them. Whoever has a right has it to what stands there while
 * they have it (CWE-367, docs/decisions/560-rights-to-files-are-confirmed.md).
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../src/kernel/caller.ts';
import type { PermissionEngine } from '../../src/kernel/permissions.ts';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Where somebody else acts: right before the engine is asked about bob, or right after it said yes. */
type Moment = 'before' | 'after';

describe('files whose rights change while they are read', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;
  let step: { readonly moment: Moment; readonly run: () => Promise<void> } | undefined;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    const on = await platform.admin.patch('/config/storage', { authorization: { enabled: true } });
    expectStatus(on, 200, 'relations');
    holdUp(platform);
  });
  afterAll(() => platform.close());

  async function taken(moment: Moment, caller: Caller): Promise<void> {
    if (step?.moment !== moment || caller.kind !== 'user' || caller.userId !== bob.userId) return;
    const { run } = step;
    step = undefined;
    await run();
  }

  function holdUp({ kernel }: TestPlatform): void {
    const { engine } = kernel.permissions;
    if (!engine) throw new Error('No engine runs');
    const check: PermissionEngine['check'] = async (caller, ...question) => {
      await taken('before', caller);
      const allowed = await engine.check(caller, ...question);
      if (allowed) await taken('after', caller);
      return allowed;
    };
    const held =
      (ask: PermissionEngine['predicate']): PermissionEngine['predicate'] =>
      async (caller, ...question) => {
        await taken('before', caller);
        const predicate = await ask(caller, ...question);
        await taken('after', caller);
        return predicate;
      };
    kernel.permissions.engine = Object.assign(Object.create(engine) as PermissionEngine, {
      check,
      predicate: held(engine.predicate),
      ...(engine.cachedPredicate && { cachedPredicate: held(engine.cachedPredicate) }),
    });
  }

  /** By its length: `open` has four bytes, `secret` six. */
  const bySize = (file: Json | undefined): string =>
    file === undefined ? '404' : file.size === 4 ? 'open' : 'secret';

  type Way = (id: string) => Promise<string>;
  const ways: Readonly<Record<string, Way>> = {
    facts: async (id) => {
      const { status, body } = await bob.api.get(`/storage/file/${id}`);
      return status === 200 ? bySize(body) : String(status);
    },
    list: async () => {
      const { body } = await bob.api.get('/storage/files?of=readable&limit=1&sort=-createdAt');
      return bySize(body.files?.[0]);
    },
    many: async (id) => {
      const { body } = await bob.api.get(`/storage/files/many?ids=${id}`);
      return bySize(body.documents?.[0]);
    },
    data: async (id) => {
      const { status, body } = await bob.api.get(`/storage/file/data/${id}`);
      return status === 200 ? Buffer.from(body.data, 'base64').toString() : String(status);
    },
    download: async (id) => {
      const path = `/storage/download/${id}`;
      const { status, bytes } = await readContent(platform, path, { headers: bearer(bob) });
      return status === 200 ? bytes.toString() : String(status);
    },
    copy: async (id) => {
      const copied = await bob.api.post(`/storage/file/${id}/copy`, {
        name: `${randomUUID()}.txt`,
      });
      if (copied.status !== 200) return String(copied.status);
      const path = `/storage/download/${copied.body._id}`;
      return (await readContent(platform, path, { headers: bearer(bob) })).bytes.toString();
    },
  };

  const upload = async (text: string): Promise<string> =>
    (await sendForm(platform, ada, [`${randomUUID()}.txt`, text])).body.id;
  const write = async (id: string, text: string): Promise<void> => {
    const data = base64(text);
    expectStatus(await ada.api.patch(`/storage/file/${id}`, { data }), 200, 'replace');
  };
  const team = `Team:${randomUUID()}`;
  let by: 'file' | 'team' = 'file';
  const rightTo = (id: string): string =>
    by === 'file' ? `User:${bob.userId} reader File:${id}` : `User:${bob.userId} readAll ${team}`;
  const giveTeam = (id: string) => permissions.relate(`${team} reader File:${id}`);

  /** Nothing of what bob could read before. */
  const forget = async (): Promise<void> => {
    const { body } = await platform.admin.get('/authorization/relations', {
      query: { subject: `User:${bob.userId}`, limit: 100 },
    });
    for (const { relation, resource } of body.relations ?? [])
      if (relation !== 'owner')
        await permissions.unrelate(`User:${bob.userId} ${relation} ${resource}`);
  };
  const kinds = Object.keys(ways).flatMap((name) => [
    { name, kind: 'file' as const },
    { name, kind: 'team' as const },
  ]);
  it.each(kinds)(
    'are not shown as they become after the right: $name $kind',
    async ({ name, kind }) => {
      by = kind;
      await forget();
      const id = await upload('open');
      if (kind === 'team') await giveTeam(id);
      await permissions.relate(rightTo(id));
      const run = async () => {
        await permissions.unrelate(rightTo(id));
        await write(id, 'secret');
      };
      step = { moment: 'after', run };
      const seen = await ways[name]?.(id);
      expect(step).toBeUndefined();
      expect(seen).not.toBe('secret');
    },
  );

  it.each(kinds)(
    'are not shown as they were before the right: $name $kind',
    async ({ name, kind }) => {
      by = kind;
      await forget();
      const id = await upload('secret');
      if (kind === 'team') await giveTeam(id);
      const run = async () => {
        await write(id, 'open');
        await permissions.relate(rightTo(id));
      };
      step = { moment: 'before', run };
      const seen = await ways[name]?.(id);
      expect(step).toBeUndefined();
      expect(seen).not.toBe('secret');
    },
  );

  it.each(['facts', 'data', 'download'])(
    'are not shown as they arrive meanwhile: %s',
    async (name) => {
      by = 'file';
      await forget();
      const id = await upload('open');
      await permissions.relate(rightTo(id));
      const begun = await ada.api.patch(`/storage/upload/${id}`, { size: 6 });
      expectStatus(begun, 200, 'begin');
      const run = async () => {
        await permissions.unrelate(rightTo(id));
        expect((await sendTo(begun.body.url, 'secret')).status).toBe(200);
      };
      step = { moment: 'after', run };
      const seen = await ways[name]?.(id);
      expect(step).toBeUndefined();
      expect(seen).not.toBe('secret');
    },
  );
});
