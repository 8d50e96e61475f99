/** One message over several channels, what users choose about messages, and templates that serve several channels and languages. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService(() => ({
    status: 400,
    body: { code: 21211, message: 'no number' },
  }));
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const { post, get, patch, put } = {
  post: (path: string, body?: object) => platform.admin.post(path, body),
  get: (path: string, query = {}) => platform.admin.get(path, { query }),
  patch: (path: string, body: object) => platform.admin.patch(path, body),
  put: (path: string, body: object) => platform.admin.put(path, body),
};
const configure = async (config: object) =>
  expect((await patch('/config/communications', { config })).status).toBe(200);
const captured = (id: string) =>
  waitFor(async () => {
    const { body } = await get(`/communications/messages/${id}`);
    return body.status === 'captured' ? body : undefined;
  });
const idOf = async ({ api }: TestUser): Promise<string> =>
  (await api.get('/authentication/user')).body._id;

test('a template serves several channels and languages, with layouts, and is shown before it is used', async () => {
  await put('/communications/partials/page', {
    body: '<h1>{{title}}</h1>{{> @partial-block}}{{> foot}}',
  });
  await put('/communications/partials/foot', { body: '<hr>{{shop}}' });
  const made = await post('/communications/templates', {
    name: 'Shipped',
    channels: ['email', 'push', 'sms'],
    email: {
      subject: 'Shipped, {{name}}',
      body: '{{#> page title="Your order"}}{{#each items}}<li>{{this}}</li>{{/each}}{{/page}}',
    },
    push: { title: 'Shipped', body: 'On its way, {{name}}' },
    sms: { message: 'Shipped: {{name}} & co' },
    translations: { de: { push: { title: 'Versandt', body: 'Unterwegs, {{name}}' } } },
    category: 'orders',
  });
  expect(made.body.template).toMatchObject({ variables: ['name', 'items'], critical: false });
  const path = `/communications/templates/${made.body.template._id}`;
  const variables = { name: '<Ada>', items: ['tea', '<milk>'], shop: 'S' };
  expect((await post(`${path}/preview`, { variables, locale: 'de-AT' })).body).toEqual({
    email: {
      subject: 'Shipped, <Ada>',
      html: '<h1>Your order</h1><li>tea</li><li>&lt;milk&gt;</li><hr>S',
      text: 'Your order\ntea\n<milk>\nS',
    },
    push: { title: 'Versandt', body: 'Unterwegs, <Ada>' },
    sms: { message: 'Shipped: <Ada> & co' },
  });
  expect(await post(`${path}/preview`, { variables: { name: 'x' }, strict: true })).toMatchObject({
    status: 400,
    body: { code: 'TEMPLATE_INVALID' },
  });
  // The name is free among both kinds, or it is taken.
  const taken = { name: 'Shipped', subject: 'x', body: 'y' };
  expect((await post('/email/templates', taken)).status).toBe(409);
  expect(
    (await post('/communications/templates', { name: 'x', channels: ['sms'] })).body,
  ).toMatchObject({ errors: [{ path: 'sms' }] });
  expect((await patch(path, { push: { title: 'Sent', body: '{{#if x}}' } })).body).toMatchObject({
    errors: [{ path: 'push.body' }],
  });
});

test('a mail template speaks the language of its reader, or of their device, or its own', async () => {
  await post('/email/templates', {
    name: 'Greeting',
    subject: 'Hello',
    body: 'x',
    translations: { de: { subject: 'Hallo', body: 'x' }, 'pt-BR': { subject: 'Oi', body: 'x' } },
  });
  const user = await platform.registerUser();
  const send = async (more: object) => {
    const { body } = await post('/communications/send', {
      channel: 'email',
      templateName: 'Greeting',
      recipient: await idOf(user),
      ...more,
    });
    return (await captured(body.messageId)).content.subject;
  };
  expect(await send({})).toBe('Hello');
  await user.api.post('/token', { token: 't-1', platform: 'android', locale: 'pt-BR' });
  expect(await send({})).toBe('Oi');
  await user.api.patch('/notifications/preferences', { locale: 'de-CH' });
  expect(await send({})).toBe('Hallo');
  expect(await send({ locale: 'el' })).toBe('Hello');
});

test('all channels or none: one that cannot keeps back all', async () => {
  const user = await platform.registerUser();
  const message = {
    recipient: await idOf(user),
    subject: 'Hi {{n}}',
    body: 'b',
    variables: { n: 1 },
  };
  const count = async () => (await get('/communications/messages')).body.count;
  const before = await count();
  // The user has no number.
  const all = { ...message, channels: ['email', 'push', 'sms'] };
  expect(await post('/send/multiple', { ...all, strategy: 'ALL_OR_NOTHING' })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'recipient.phone' }, { path: 'channels.2' }] },
  });
  expect(await count()).toBe(before);
  const best = await post('/send/multiple', all);
  expect(best.body).toMatchObject({
    successCount: 2,
    failureCount: 1,
    results: [
      { channel: 'email', success: true },
      { channel: 'push', success: true },
      { channel: 'sms', success: false, error: expect.stringContaining('sms needs it') },
    ],
  });
  expect((await captured(best.body.results[0].messageId)).content.subject).toBe('Hi 1');
  expect((await user.api.get('/notifications')).body.notifications[0].title).toBe('Hi 1');
  for (const body of [
    { ...message, channels: ['email', 'email'] },
    { ...message, channels: ['fax'] },
    { ...message, channels: ['email'], recipient: 'nobody' },
    { ...message, channels: ['email'], recipient: {} },
  ])
    expect((await post('/send/multiple', body)).status).toBe(400);
  const stranger = { ...message, recipient: '00000000-0000-7000-8000-000000000000' };
  expect((await post('/send/multiple', { ...stranger, channels: ['email'] })).status).toBe(404);
});

const chain = (id: string) => get(`/communications/chains/${id}`);

test('a chain goes on where a channel fails, and says what was tried', async () => {
  await configure({
    sms: {
      providerName: 'twilio',
      maxPerRecipient: 100,
      twilio: { accountSID: 'AC1', authToken: 't', phoneNumber: '+1', endpoint: fake.url },
    },
    providers: { allowInternal: true },
  });
  const message = {
    recipient: { email: 'chain@example.com', phone: '+306912345678' },
    subject: 's',
    body: 'b',
  };
  const done = await post('/send/fallback', {
    ...message,
    fallbackChain: [{ channel: 'push' }, { channel: 'sms', timeout: 5000 }, { channel: 'email' }],
  });
  expect(done.body).toMatchObject({
    status: 'done',
    successfulChannel: 'email',
    attempts: [
      { channel: 'push', success: false, error: expect.stringContaining('userId') },
      { channel: 'sms', success: false, error: expect.stringContaining('21211') },
      { channel: 'email', success: true },
    ],
  });
  expect((await captured(done.body.messageId)).recipient).toBe('chain@example.com');
  expect(fake.requests).toHaveLength(1);
  const failed = await post('/send/fallback', { ...message, fallbackChain: [{ channel: 'sms' }] });
  expect(failed).toMatchObject({
    status: 500,
    body: { code: 'CHANNELS_FAILED', message: expect.stringContaining('1 attempts') },
  });
});

test('a chain is kept under a name, used by it, and is state as code', async () => {
  await post('/email/templates', { name: 'Reminder', subject: 'Due {{day}}', body: '<p>x</p>' });
  const path = '/communications/chain-definitions';
  const steps = [{ channel: 'push', timeout: 2000 }, { channel: 'email' }];
  const kept = await put(`${path}/reminders`, { steps, templateName: 'Reminder' });
  expect(kept.body).toMatchObject({ name: 'reminders', steps, allowDuplicate: false });
  await put(`${path}/other`, { steps: [{ channel: 'email', until: 'delivered' }] });
  expect((await get(path, { search: 'REMIND' })).body).toMatchObject({
    count: 1,
    chains: [{ name: 'reminders', templateName: 'Reminder', description: null }],
  });
  // The caller says who and with what, the chain says how and what.
  const message = { recipient: { email: 'kept@example.com' }, variables: { day: 'today' } };
  const done = (await post('/send/fallback', { chain: 'reminders', ...message })).body;
  expect(done).toMatchObject({ name: 'reminders', status: 'done', successfulChannel: 'email' });
  expect((await captured(done.messageId)).content.subject).toBe('Due today');
  expect((await chain(done.chainId)).body).toMatchObject({ name: 'reminders', status: 'done' });
  const own = { chain: 'reminders', ...message, subject: 'Said here', body: 'b' };
  expect((await captured((await post('/send/fallback', own)).body.messageId)).content.subject).toBe(
    'Said here',
  );
  // What is under way goes on as it began.
  const user = await platform.registerUser();
  await put(`${path}/waiting`, { steps: [{ channel: 'push', until: 'read', timeout: 60_000 }] });
  const about = { recipient: await idOf(user), subject: 's', body: 'b' };
  const waiting = (await post('/send/fallback', { chain: 'waiting', ...about })).body;
  expect((await platform.admin.delete(`${path}/waiting`)).body).toEqual({ deleted: true });
  expect((await chain(waiting.chainId)).body).toMatchObject({ name: 'waiting', status: 'running' });
  for (const [body, status, code] of [
    [{ chain: 'waiting', ...about }, 404, 'CHAIN_DEFINITION_NOT_FOUND'],
    [about, 400, 'INVALID_ARGUMENTS'],
    [{ chain: 'reminders', fallbackChain: steps, ...about }, 400, 'INVALID_ARGUMENTS'],
  ] as const)
    expect(await post('/send/fallback', body)).toMatchObject({ status, body: { code } });
  expect((await get(`${path}/waiting`)).status).toBe(404);
  expect((await platform.admin.delete(`${path}/waiting`)).status).toBe(404);
  for (const bad of [
    { steps: [] },
    { steps: [{ channel: 'fax' }] },
    { steps: [{ channel: 'sms', timeout: 99 }] },
  ])
    expect((await put(`${path}/bad`, bad)).status).toBe(400);
  // As state: exported, planned, pruned, imported.
  const of = async (query = {}) =>
    (await get('/state/export', { types: 'messageChains', ...query })).body;
  const exported = await of();
  expect(exported.modules.communications.messageChains).toEqual([
    { name: 'other', steps: [{ channel: 'email', until: 'delivered' }] },
    { name: 'reminders', steps, templateName: 'Reminder' },
  ]);
  expect((await post('/state/plan', exported)).body.changes ?? []).toEqual([]);
  await platform.admin.delete(`${path}/reminders`);
  expect((await post('/state/import', exported)).status).toBe(200);
  expect(await of()).toEqual(exported);
});

test('what was not read in time goes on over the next channel, and what was read does not', async () => {
  const [reader, tidy, sleeper] = [
    await platform.registerUser(),
    await platform.registerUser(),
    await platform.registerUser(),
  ];
  const begin = async (user: TestUser, timeout: number) => {
    const fallbackChain = [{ channel: 'push', until: 'read', timeout }, { channel: 'email' }];
    const recipient = await idOf(user);
    const body = { recipient, subject: 's', body: 'b', fallbackChain };
    return (await post('/send/fallback', body)).body;
  };
  // Who reads has all the time that a slow machine takes.
  const [read, deleted] = [await begin(reader, 600_000), await begin(tidy, 600_000)];
  const unread = await begin(sleeper, 1_000);
  for (const { status } of [read, deleted, unread]) expect(status).toBe('running');
  for (const { userId } of [reader, tidy]) {
    const [message] = (await get('/communications/messages', { recipient: userId })).body.messages;
    await waitFor(
      async () =>
        (await get(`/communications/messages/${message._id}`)).body.status !== 'queued' ||
        undefined,
    );
  }
  await reader.api.patch('/notifications', { all: true });
  const [{ _id: entry }] = (await tidy.api.get('/notifications')).body.notifications;
  expect((await tidy.api.delete(`/notifications/${entry}`)).status).toBe(200);
  const ended = (id: string) =>
    waitFor(
      async () => {
        const { body } = await chain(id);
        return body.status === 'running' ? undefined : body;
      },
      { timeoutMs: 30_000 },
    );
  for (const { chainId } of [read, deleted])
    expect(await ended(chainId)).toMatchObject({
      status: 'done',
      successfulChannel: 'push',
      attempts: [{ channel: 'push', success: true }],
    });
  expect(await ended(unread.chainId)).toMatchObject({
    status: 'done',
    successfulChannel: 'email',
    attempts: [
      { channel: 'push', success: false },
      { channel: 'email', success: true },
    ],
  });
});

test('a chain that is cancelled goes no further', async () => {
  const user = await platform.registerUser();
  const { chainId } = (
    await post('/send/fallback', {
      recipient: await idOf(user),
      subject: 's',
      body: 'b',
      fallbackChain: [{ channel: 'push', until: 'read', timeout: 600_000 }, { channel: 'email' }],
    })
  ).body;
  expect((await post(`/communications/chains/${chainId}/cancel`)).status).toBe(200);
  expect((await chain(chainId)).body).toMatchObject({ status: 'cancelled', position: 0 });
  expect((await chain('00000000-0000-7000-8000-000000000000')).status).toBe(404);
});

test('users choose by kind and channel; what belongs to their account always comes', async () => {
  const user = await platform.registerUser();
  const preferences = [
    { category: 'news', channel: 'email', enabled: false },
    { category: '*', channel: 'push', enabled: false },
  ];
  const chosen = await user.api.patch('/notifications/preferences', { preferences });
  expect(chosen.body.preferences).toHaveLength(2);
  const recipient = await idOf(user);
  const send = async (channel: string, more: object) =>
    (await post('/communications/send', { channel, recipient, subject: 's', body: 'b', ...more }))
      .body.success;
  expect(await send('email', { category: 'news' })).toBe(false);
  expect(await send('email', { category: 'news', critical: true })).toBe(true);
  expect(await send('email', { category: 'orders' })).toBe(true);
  expect(await send('email', {})).toBe(true);
  expect(await send('push', { category: 'orders' })).toBe(false);
  expect(await send('push', {})).toBe(true);
  for (const body of [
    { timezone: 'Europe/Nowhere' },
    { quietHours: { start: '25:00', end: '07:00' } },
    { preferences: [{ category: 'a b', channel: 'email', enabled: true }] },
  ])
    expect((await user.api.patch('/notifications/preferences', body)).status).toBe(400);
});

test('what a user chooses in several requests at once is all kept', async () => {
  const quietHours = { start: '22:00', end: '06:00' };
  const preferences = [{ category: 'news', channel: 'email', enabled: false }];
  const said = [{ locale: 'de' }, { timezone: 'Europe/Athens' }, { quietHours }, { preferences }];
  const users = await Promise.all(Array.from({ length: 4 }, () => platform.registerUser()));
  for (const { api } of users) {
    const path = '/notifications/preferences';
    const answers = await Promise.all(said.map((one) => api.patch(path, one)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await api.get(path)).body).toEqual(Object.assign({}, ...said));
  }
});

test('changes of a template that come at once are all kept, with the names that they use', async () => {
  const { body: unified } = await post('/communications/templates', {
    name: 'AtOnce',
    channels: ['email', 'push', 'sms'],
    email: { subject: 'old', body: 'old' },
    push: { title: 'old', body: 'old' },
    sms: { message: 'old' },
  });
  const { body: mail } = await post('/email/templates', {
    name: 'MailAtOnce',
    subject: 'old',
    body: 'old',
  });
  for (const n of [1, 2, 3, 4]) {
    const said = [
      { email: { subject: `{{a${n}}}`, body: 'new' } },
      { push: { title: `{{b${n}}}`, body: 'new' } },
      { sms: { message: `{{c${n}}}` } },
    ];
    const path = `/communications/templates/${unified.template._id}`;
    await Promise.all(said.map((one) => patch(path, one)));
    expect((await get(path)).body.template).toMatchObject({
      ...Object.assign({}, ...said),
      variables: [`a${n}`, `b${n}`, `c${n}`],
    });
    const texts = [{ subject: `{{s${n}}}` }, { body: `{{t${n}}}` }];
    const mailPath = `/email/templates/${mail.template._id}`;
    await Promise.all(texts.map((one) => patch(mailPath, one)));
    expect((await get(mailPath)).body.template).toMatchObject({
      ...Object.assign({}, ...texts),
      variables: [`t${n}`, `s${n}`],
    });
  }
});

test('one click in a mail says no to its kind, also by the mail program itself (RFC 8058)', async () => {
  const user = await platform.registerUser();
  const send = () =>
    post('/communications/send', {
      channel: 'email',
      recipient: { userId: undefined, email: user.email },
      category: 'news',
      subject: 's',
      body: '<a href="{{unsubscribeLink}}">leave</a>',
    });
  const { content } = await captured((await send()).body.messageId);
  const { headers } = content.mail;
  expect(headers['List-Unsubscribe-Post']).toBe('List-Unsubscribe=One-Click');
  const link = String(headers['List-Unsubscribe']).slice(1, -1);
  expect(content.links).toEqual([link]);
  const page = await fetch(link);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(await page.text()).toContain('<b>news</b>');
  // Looking changes nothing.
  expect((await send()).body.success).toBe(true);
  const click = () =>
    fetch(link, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'List-Unsubscribe=One-Click',
    });
  expect([(await click()).status, (await click()).status]).toEqual([200, 200]);
  expect((await send()).body).toMatchObject({ success: false });
  const other = await post('/email/send', {
    email: user.email,
    category: 'orders',
    subject: 's',
    body: 'b',
  });
  expect(other.status).toBe(200);
  // Who wants it again gets it again.
  const preferences = [{ category: 'news', channel: 'email', enabled: true }];
  await user.api.patch('/notifications/preferences', { preferences });
  expect((await send()).body.success).toBe(true);
  expect((await fetch(link.slice(0, -6), { method: 'POST' })).status).toBe(404);
});

test('messages that may wait do so in the quiet hours of their user', async () => {
  const user = await platform.registerUser();
  // Whatever the time is: from an hour ago to three hours from now, by a clock that is 5:30 ahead.
  const hour = new Date(Date.now() + 5.5 * 3600_000).getUTCHours();
  const clock = (hours: number) => String((hour + hours + 24) % 24).padStart(2, '0');
  await user.api.patch('/notifications/preferences', {
    timezone: 'Asia/Kolkata',
    quietHours: { start: `${clock(-1)}:00`, end: `${clock(3)}:00` },
  });
  const dueAt = expect.stringContaining(`T${clock(3 - 6)}:30:00`);
  const recipient = await idOf(user);
  const send = async (more: object) => {
    const body = { channel: 'email', recipient, subject: 's', body: 'b', ...more };
    return (await post('/communications/send', body)).body.messageId;
  };
  const waiting = await send({ category: 'news' });
  await captured(await send({ category: 'news', critical: true }));
  await captured(await send({}));
  const { body } = await get(`/communications/messages/${waiting}`);
  expect(body).toMatchObject({ status: 'queued', dueAt });
  expect((await post(`/communications/messages/${waiting}/cancel`)).status).toBe(200);
  expect((await post(`/communications/messages/${waiting}/cancel`)).status).toBe(409);

  // The time of a step begins when they are over.
  const chain = await post('/send/fallback', {
    ...{ recipient, category: 'news', subject: 's', body: 'b' },
    fallbackChain: [{ channel: 'email', timeout: 1000 }],
  });
  expect(chain).toMatchObject({ status: 200, body: { status: 'running', attempts: [] } });
  const [step] = (
    await get('/communications/messages', { recipient: user.email, status: 'queued' })
  ).body.messages;
  expect(step).toMatchObject({ attempts: 0, dueAt });
  expect((await post(`/communications/chains/${chain.body.chainId}/cancel`)).status).toBe(200);
  expect((await get(`/communications/messages/${step._id}`)).body.status).toBe('cancelled');
});

test('a digest is one message with all that was collected, also of 30 at once', async () => {
  const digest = { key: 'comments', windowSeconds: 2 };
  const writings = ['digest@example.com', 'Digest@Example.com'];
  const add = (n: number) =>
    post('/communications/send', {
      channel: 'email',
      // One mailbox, however its address is written.
      recipient: writings[n % 2],
      subject: '{{count}} comments',
      body: '{{#each items}}{{n}},{{/each}}',
      variables: { n },
      digest,
    });
  const added = await Promise.all(Array.from({ length: 30 }, (_, n) => add(n)));
  expect(new Set(added.map(({ body }) => body.digestId)).size).toBe(1);
  const mails = async () =>
    (
      await Promise.all(writings.map((recipient) => get('/communications/messages', { recipient })))
    ).flatMap(({ body }) => body.messages);
  const [mail] = await waitFor(
    async () => {
      const found = await mails();
      return found.length > 0 ? found : undefined;
    },
    { timeoutMs: 30_000 },
  );
  const { content } = await captured(mail._id);
  expect(content.subject).toBe('30 comments');
  const written: string[] = content.text.split(',').filter(Boolean);
  expect(written).toHaveLength(30);
  expect(new Set(written.map(Number))).toEqual(new Set(Array.from({ length: 30 }, (_, n) => n)));
  expect(await mails()).toHaveLength(1);
});

test('mail templates become templates for several channels', async () => {
  await post('/email/templates', { name: 'Old', subject: 'x {{a}}', body: 'y' });
  const id = (await get('/email/templates', { search: 'Old' })).body.templateDocuments[0]._id;
  const plan = { emailTemplateId: id, deleteSource: true };
  const dry = await post('/communications/templates/migrate-from-email', { ...plan, dryRun: true });
  expect(dry.body).toMatchObject({ dryRun: true, created: 0, planned: [{ sourceName: 'Old' }] });
  const real = await post('/communications/templates/migrate-from-email', plan);
  expect(real.body).toMatchObject({ dryRun: false, count: 1, created: [{ name: 'Old' }] });
  expect((await get(`/email/templates/${id}`)).status).toBe(404);
});

test('a mail template that moves takes its languages and names along, and each finds a name of its own', async () => {
  const letters = 'L'.repeat(91);
  const texts = { subject: 'x', body: 'y {{a}}' };
  const more = {
    sender: 'shop@example.com',
    variables: ['further'],
    translations: { de: { subject: 'X', body: 'Y {{a}}' } },
  };
  for (const name of [`${letters}\u{1F600}1`, `${letters}\u{1F600}2`])
    expect((await post('/email/templates', { name, ...texts, ...more })).status).toBe(200);
  const path = '/communications/templates/migrate-from-email';
  const dry = await post(path, { dryRun: true, skipExisting: true });
  const real = await post(path, { skipExisting: true });
  expect(real.status, real.text).toBe(200);
  expect(real.body.planned).toEqual(dry.body.planned);
  const { planned, created } = real.body;
  const [one, two] = planned.filter(({ sourceName }: { sourceName: string }) =>
    sourceName.startsWith(letters),
  );
  expect([one.skipped, two.skipped]).toEqual([undefined, true]);
  const made = created.find(({ name }: { name: string }) => name === `${letters}-unified`);
  expect(made).toMatchObject({
    email: { subject: 'x', sender: more.sender },
    translations: { de: { email: more.translations.de } },
    variables: ['a', 'further'],
  });
  // Who writes is the same in every language.
  const send = { channel: 'email', recipient: 'moved@example.com', templateName: made.name };
  const { body } = await post('/communications/send', { ...send, locale: 'de' });
  expect((await captured(body.messageId)).content).toMatchObject({
    subject: 'X',
    from: more.sender,
  });
});

test('what a template for several channels has no more goes, by hand and by state as code', async () => {
  const whole = {
    name: 'Whole',
    channels: ['sms'],
    sms: { message: 'm' },
    translations: { de: { sms: { message: 'M' } } },
    category: 'news',
    templateDescription: 'd',
  };
  const { template } = (await post('/communications/templates', whole)).body;
  const path = `/communications/templates/${template._id}`;
  const emptied = await patch(path, { translations: {} });
  expect(emptied.body.template).toMatchObject({ translations: null, category: 'news' });
  await patch(path, { translations: whole.translations });
  const exported = async () =>
    (await get('/state/export', { types: 'communicationTemplates' })).body;
  const state = await exported();
  const documents = state.modules.communications.communicationTemplates;
  const place = documents.findIndex(({ name }: { name: string }) => name === 'Whole');
  const { translations, category, templateDescription, ...rest } = documents[place];
  expect([translations, category, templateDescription]).toEqual([whole.translations, 'news', 'd']);
  documents[place] = rest;
  const imported = await post('/state/import', state);
  expect(imported.status, imported.text).toBe(200);
  expect((await exported()).modules).toEqual(state.modules);
});

test('a preview shows a mail as it is sent', async () => {
  const texts = { subject: 'Two\nlines', body: 'Dear {{name}},\n\nleave: {{unsubscribeLink}}' };
  const { _id: id } = (await post('/email/templates', { name: 'Lines', ...texts })).body;
  const variables = { name: '<Ada>' };
  const seen = await post(`/email/templates/${id}/preview`, { variables, strict: true });
  expect(seen.body).toEqual({
    subject: 'Two lines',
    html: 'Dear &lt;Ada&gt;,<br>\n<br>\nleave: https://example.com/unsubscribe',
    text: 'Dear <Ada>,\n\nleave: https://example.com/unsubscribe',
  });
  const unified = { name: 'Lines too', channels: ['email'], email: texts };
  const { template } = (await post('/communications/templates', unified)).body;
  const path = `/communications/templates/${template._id}/preview`;
  expect((await post(path, { variables, strict: true })).body).toEqual({ email: seen.body });
});

test('sent mails are listed, told about and sent once more while they are kept', async () => {
  const email = 'records@example.com';
  const cc = ['copy@example.com'];
  const { messageId } = (await post('/email/send', { email, cc, subject: 's', body: 'b' })).body;
  await captured(messageId);
  const [record] = (await get('/email/emails', { search: 'RECORDS@' })).body.emailDocuments;
  expect(record).toMatchObject({ _id: messageId, receiver: email, cc, status: 'UNKNOWN' });
  expect((await get('/email/record', { cc: cc[0] })).body).toMatchObject({ count: 1 });
  expect((await get('/email/emails', { status: 'FAILED', receiver: email })).body.count).toBe(0);
  expect((await get(`/email/emails/${messageId}`)).body.emailRecord._id).toBe(messageId);
  expect((await get('/email/status', { messageId })).body.statusInfo.events[0].kind).toBe('queued');
  const again = await post('/email/resend', { emailRecordId: messageId });
  expect((await captured(again.body.messageId)).content).toMatchObject({ subject: 's' });
  expect((await post('/email/resend', {})).status).toBe(400);
  expect((await get('/email/status', { messageId: 'nothing' })).status).toBe(404);
  const tested = await post('/email/test', { email, subject: 's', body: 'b' });
  expect(tested.body).toMatchObject({ captured: true });
});
