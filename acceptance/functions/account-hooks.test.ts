/** Functions before sign-ups, sign-ins and messages: they refuse, add, change, and hear of it afterwards. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createBrowser } from '../../test/support/providers/browser.ts';
import {
  type OpenidProvider,
  startOpenidProvider,
} from '../../test/support/providers/openid-provider.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createTestWallet } from '../../test/support/wallet.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let provider: OpenidProvider;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const person = { sub: 'one', email: 'one@corp.example', email_verified: true };
  provider = await startOpenidProvider(
    [`${platform.addresses.client}/hook/authentication/google`],
    person,
  );
  const { issuer, clientId, clientSecret } = provider;
  const on = { enabled: true };
  const config = {
    ...{ phoneAuthentication: on, anonymousUsers: on, metamask: on, magic_link: on },
    externalSignIn: { allowInternalAddresses: true },
    google: { ...on, issuer, clientId, clientSecret, redirect_uri: 'https://app.example.com/' },
  };
  expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'configure');
  await platform.createSchema({
    name: 'Heard',
    fields: { what: 'String', about: 'String' },
    conduitOptions: { cms: { enabled: true, crudOperations: { read: open, create: open } } },
  });
  const { schemas } = (await platform.admin.get('/database/schemas', { query: { limit: 100 } }))
    .body;
  const { _id } = schemas.find(({ name }: Json) => name === 'User');
  const extension = { fields: { tier: 'String' } };
  expectStatus(
    await platform.admin.post(`/database/schemas/${_id}/extensions`, extension),
    200,
    'extend',
  );
});
afterAll(async () => {
  await platform.close();
  await provider.close();
});
afterEach(async () => {
  const { functions } = (await platform.admin.get('/functions/', { query: { limit: 200 } })).body;
  for (const { _id } of functions) await platform.admin.delete(`/functions/${_id}`);
});

const open = { enabled: true, authenticated: false };
const hook = (name: string, op: string, functionCode: string, when = 'before') =>
  upload(platform.admin, {
    ...{ name, functionType: 'hook', functionCode },
    inputs: { rights: 'system', trigger: { op, when } },
  });
const heard = async (): Promise<Json[]> =>
  (await platform.client.get('/database/Heard', { query: { limit: 200 } })).body.documents;
const claimsIn = (token: string): Json =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

const password = 'a long enough passphrase 7';
const register = (email: string) =>
  platform.client.post('/authentication/local/new', { email, password });
const login = (email: string) => platform.client.post('/authentication/local', { email, password });

async function byPhone(phone: string) {
  const { token } = (await platform.client.post('/authentication/phone', { phone })).body;
  const query = { recipient: phone, channel: 'sms' };
  const code = await waitFor(async () => {
    const list = await platform.admin.get('/communications/messages', { query });
    const [message] = list.body.messages as Json[];
    return (
      message &&
      (await platform.admin.get(`/communications/messages/${message._id}`)).body.content?.code
    );
  });
  return platform.client.post('/authentication/phone/verify', { token, code });
}

async function byWallet() {
  const { address: ethPublicAddress, sign } = createTestWallet();
  const asked = await platform.client.post('/authentication/metamask/nonce', { ethPublicAddress });
  const signature = sign(asked.body.message);
  const proof = { ethPublicAddress, signature };
  return platform.client.post('/authentication/metamask/authenticate', proof);
}

async function byProvider() {
  const browser = createBrowser(platform.client);
  const { url } = await browser.start('google', {}, {});
  const back = await browser.follow(url.href, `${platform.addresses.client}/hook/`);
  return browser.back('google', Object.fromEntries(back.searchParams));
}

describe('before a sign-up', () => {
  it('the code makes calls at once, and beside a transaction that it holds open', async () => {
    await hook(
      'busy',
      'signUp',
      `export default async (ctx, req) => {
        const { db } = ctx.system;
        const at = (n) => db.create('Heard', { what: req.email, about: String(n) });
        const ends = await Promise.allSettled([at(1), db.create('Heard', { what: 5 }), at(2)]);
        await db.transaction(async (open) => {
          await open.create('Heard', { what: req.email, about: 'held' });
          await at((await db.count('Heard', { what: req.email })) + 0);
        });
        return { userData: { tier: ends.map(({ status }) => status[0]).join('') } };
      }`,
    );
    expectStatus(await register('busy@example.com'), 200, 'register');
    const said = (await heard()).filter(({ what }) => what === 'busy@example.com');
    expect(said.map(({ about }) => about).sort()).toEqual(['1', '2', '3', 'held']);
  });

  it('one hook refuses every way in, and nothing of the account is left', async () => {
    await hook(
      'closed',
      'signUp',
      `export default async (ctx, req) => {
        await ctx.system.db.create('Heard', { what: 'asked', about: req.strategy });
        ctx.reject(403, 'Closed for ' + req.strategy, 'SIGN_UP_CLOSED');
      };`,
    );
    const before = (await platform.admin.get('/authentication/users')).body.count;
    const answers = {
      local: await register('ann@corp.example'),
      anonymous: await platform.client.post('/authentication/local/new/anonymous'),
      phone: await byPhone('+306912340011'),
      metamask: await byWallet(),
      admin: await platform.admin.post('/authentication/users', {
        ...{ email: 'made@corp.example', password },
      }),
    };
    for (const [strategy, answer] of Object.entries(answers))
      expect(answer, answer.text).toMatchObject({
        status: 403,
        body: { code: 'SIGN_UP_CLOSED', message: `Closed for ${strategy}` },
      });
    expect((await byProvider()).headers.get('location') ?? '').not.toContain('accessToken');
    expect((await platform.admin.get('/authentication/users')).body.count).toBe(before);
    expect((await heard()).filter(({ what }) => what === 'asked')).toEqual([]);
  });

  it('a hook adds to the account, and catches what fails in the meantime', async () => {
    await hook(
      'tiers',
      'signUp',
      `export default async (ctx, req) => {
        await ctx.system.db.create('Heard', { what: 7 }).catch(() => undefined);
        await ctx.system.db.create('Missing', {}).catch(() => undefined);
        return { userData: { tier: req.email.endsWith('@gold.example') ? 'gold' : 'plain' } };
      };`,
    );
    const made = await register('midas@gold.example');
    expect(made.body.user, made.text).toMatchObject({ tier: 'gold' });
    expect((await byProvider()).headers.get('location')).toContain('accessToken');
    const users = (await platform.admin.get('/authentication/users')).body.users as Json[];
    expect(users.find(({ email }) => email === 'one@corp.example')).toMatchObject({
      tier: 'plain',
    });
  });

  it('a hook that answers what is not to be changed refuses, and says what it may answer', async () => {
    await hook('eager', 'signUp', 'return { isVerified: true };');
    expect(await register('eager@corp.example')).toMatchObject({
      status: 400,
      body: { code: 'HOOK_REFUSED', message: expect.stringContaining('userData') },
    });
  });

  it('a function after it hears of it once, also when it fails at first', async () => {
    await hook(
      'welcome',
      'signUp',
      `export default async (ctx, req) => {
        if (ctx.attempt === 1) throw new Error('not yet');
        await ctx.system.db.create('Heard', { what: 'welcome ' + req.strategy, about: req.id });
      };`,
      'after',
    );
    const { body } = expectStatus(await register('later@corp.example'), 200, 'register');
    await waitFor(async () => (await heard()).some(({ about }) => about === body.user._id));
    expect((await heard()).filter(({ about }) => about === body.user._id)).toMatchObject([
      { what: 'welcome local' },
    ]);
  });
});

describe('before a sign-in', () => {
  it('a hook adds claims, which renewals repeat, and refuses with its message', async () => {
    await register('bea@corp.example');
    await hook(
      'roles',
      'signIn',
      `export default async (ctx, req) => {
        const user = await ctx.system.db.findOne('User', { _id: req.userId });
        if (user.email === 'shut@corp.example') throw new Error('Not on a Sunday');
        return { claims: { via: req.strategy, name: user.email } };
      };`,
    );
    const { body } = expectStatus(await login('bea@corp.example'), 200, 'login');
    const claims = { via: 'local', name: 'bea@corp.example' };
    expect(claimsIn(body.accessToken)).toMatchObject({ claims });
    const renewed = await platform.client.post('/authentication/renew', undefined, {
      token: body.refreshToken,
    });
    expect(claimsIn(expectStatus(renewed, 200, 'renew').body.accessToken)).toMatchObject({
      claims,
    });
    expect(claimsIn((await byWallet()).body.accessToken)).toMatchObject({
      claims: { via: 'metamask' },
    });
    await register('shut@corp.example');
    expect(await login('shut@corp.example')).toMatchObject({
      status: 400,
      body: { code: 'HOOK_REFUSED', message: 'Not on a Sunday' },
    });
  });
});

describe('before a message', () => {
  const send = (recipient: string, body: string) =>
    platform.admin.post('/email/send', {
      ...{ email: recipient, sender: 'us@corp.example', subject: 'News', body },
    });
  const messageTo = async (recipient: string, status: string): Promise<Json> => {
    const query = { recipient, status };
    const id = await waitFor(
      async () =>
        (await platform.admin.get('/communications/messages', { query })).body.messages[0]?._id,
      { what: `a message to ${recipient}` },
    );
    return (await platform.admin.get(`/communications/messages/${id}`)).body;
  };

  it('a hook changes or refuses it, and one after it hears that it went out', async () => {
    await hook(
      'footer',
      'send',
      `export default async (ctx, req) => {
        if (req.to.startsWith('never@')) throw new Error('They asked for silence');
        return { subject: '[Corp] ' + req.subject, html: req.html + '<p>Bye</p>' };
      };`,
    );
    await hook(
      'ledger',
      'send',
      `export default (ctx, req) => ctx.system.db.create('Heard', { what: 'sent', about: req.id });`,
      'after',
    );
    expectStatus(await send('fine@corp.example', '<p>Hello</p>'), 200, 'send');
    const changed = await messageTo('fine@corp.example', 'captured');
    expect(changed.content).toMatchObject({
      ...{ subject: '[Corp] News', text: 'Hello\nBye' },
      html: expect.stringContaining('<p>Bye</p>'),
    });
    await send('never@corp.example', '<p>Hello</p>');
    const refused = await messageTo('never@corp.example', 'failed');
    expect(JSON.stringify(refused)).toContain('They asked for silence');
    await waitFor(async () => (await heard()).some(({ about }) => about === changed._id));
    expect((await heard()).filter(({ about }) => about === refused._id)).toEqual([]);
  });

  it('a hook that cannot answer now is asked again with the next attempt', async () => {
    await hook(
      'slow',
      'send',
      'return req.attempt === 1 ? new Promise(() => undefined) : { subject: "at last" };',
    );
    expectStatus(await send('patient@corp.example', '<p>Hello</p>'), 200, 'send');
    const message = await messageTo('patient@corp.example', 'captured');
    expect(message.content).toMatchObject({ subject: 'at last' });
  });
});

it('the trigger of what is no record has no schema', async () => {
  const answer = await platform.admin.post('/functions/upload', {
    ...{ name: 'wrong', functionType: 'hook', functionCode: 'return 1;' },
    inputs: { trigger: { op: 'signIn', when: 'before', schema: 'User' } },
  });
  expect(answer).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'inputs.trigger.schema' }] },
  });
});
