/** Submissions by programs (CWE-799, CWE-804): challenges, traps, time, rates, repetition, captchas and lists of spammers. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMailbox, type Mailbox } from '../../test/support/mailbox.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createForm, processed, solve, submissionsOf } from './requests.ts';

/** A service outside: what it was asked, and what it answers next. */
const service = { asked: [] as string[], answer: {} as unknown, status: 200 };
let server: Server;
let address: string;
let platform: TestPlatform;
let mailbox: Mailbox;
beforeAll(async () => {
  server = createServer((request, response) => {
    service.asked.push(request.url ?? '');
    request.resume();
    if (service.status === 0) return;
    response.writeHead(service.status).end(JSON.stringify(service.answer));
  }).listen(0, '127.0.0.1');
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  mailbox = createMailbox(platform.admin);
  await liftLimits(platform.admin);
});
afterAll(async () => {
  await platform.close();
  server.closeAllConnections();
  server.close();
});

const configure = async (config: object, module = 'forms') =>
  expect((await platform.admin.patch(`/config/${module}`, { config })).status).toBe(200);
const values = { email: 'ada@example.com', message: 'Hello' };
let visitors = 0;
const submit = (formId: string, body: object, from = `10.1.${visitors++ >> 8}.${visitors & 255}`) =>
  platform.client.post(`/forms/submit/${formId}`, body, { headers: { 'x-forwarded-for': from } });
const forwarded = { forwardTo: 'team@example.com', emailField: 'email' };

it('refuses the 21st submission of an address in an hour, and no other form or address', async () => {
  const form = await createForm(platform.admin);
  for (let i = 0; i < 20; i++)
    expect((await submit(form._id, { ...values, message: `${i}` }, '10.9.9.9')).status).toBe(200);
  const refused = await submit(form._id, values, '10.9.9.9');
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_000);
  expect((await submit(form._id, values, '10.9.9.10')).status).toBe(200);
  const other = await createForm(platform.admin);
  expect((await submit(other._id, values, '10.9.9.9')).status).toBe(200);
  // One customer has a whole network of IPv6.
  for (let i = 0; i < 20; i++)
    await submit(form._id, { ...values, message: `v6 ${i}` }, `2001:db8::${i}`);
  expect((await submit(form._id, values, '2001:db8::ffff')).status).toBe(429);
});

it('answers a program that fills in what people do not see like anybody, and mails nobody', async () => {
  const form = await createForm(platform.admin, { ...forwarded, autoReply: true });
  const trapped = await submit(form._id, { ...values, website_url: 'https://spam.example' });
  const honest = await submit(form._id, { ...values, message: 'Another' });
  expect(trapped.status).toBe(200);
  expect(Object.keys(trapped.body)).toEqual(Object.keys(honest.body));
  expect(await processed(platform.admin, trapped.body.submissionId)).toMatchObject({
    possibleSpam: true,
    signals: ['honeypot'],
    forwarded: 'spam',
  });
  await mailbox.mail('team@example.com', 'FormSubmission');
  expect(await mailbox.count('team@example.com', 'FormSubmission')).toBe(1);
  expect(await submissionsOf(platform.admin, form._id, { possibleSpam: true })).toHaveLength(1);
});

it('forwards what an operator finds to be no spam, once', async () => {
  const form = await createForm(platform.admin, { ...forwarded, forwardTo: 'late@example.com' });
  const { body } = await submit(form._id, { ...values, website_url: 'x' });
  await processed(platform.admin, body.submissionId);
  const path = `/admin/forms/submissions/${body.submissionId}`;
  for (let i = 0; i < 3; i++)
    expect((await platform.admin.patch(path, { possibleSpam: false })).status).toBe(200);
  await mailbox.mail('late@example.com', 'FormSubmission');
  await waitFor(
    async () => (await platform.admin.get(path)).body.forwarded === 'queued' || undefined,
  );
  expect(await mailbox.count('late@example.com', 'FormSubmission')).toBe(1);
});

it('sees too many links, and the same content again and again', async () => {
  const form = await createForm(platform.admin);
  const links = Array.from({ length: 6 }, (_, i) => `http://a${i}.example`).join(' ');
  const linked = await submit(form._id, { ...values, message: links });
  expect(await processed(platform.admin, linked.body.submissionId)).toMatchObject({
    signals: ['links'],
  });
  const spam = [];
  for (let i = 0; i < 4; i++) {
    const { body } = await submit(form._id, { ...values, message: 'Buy!' });
    spam.push((await processed(platform.admin, body.submissionId)).possibleSpam);
  }
  expect(spam).toEqual([false, false, true, true]);
});

describe('a challenge', () => {
  const challengeOf = async (formId: string) =>
    (await platform.client.get(`/forms/${formId}/challenge`)).body;
  const solved = (challenge: { challenge: string }, solution: string, more: object = {}) => ({
    ...values,
    _challenge: challenge.challenge,
    _solution: solution,
    ...more,
  });
  const failed = { status: 403, body: { code: 'FORM_CHALLENGE_FAILED' } };

  it('is requested where the form says so, and good for one submission', async () => {
    await configure({ spam: { minFillSeconds: 0 } });
    const form = await createForm(platform.admin, { proofOfWork: true });
    expect(await submit(form._id, values)).toMatchObject({
      status: 403,
      body: { code: 'FORM_CHALLENGE_REQUIRED' },
    });
    const challenge = await challengeOf(form._id);
    expect(challenge.difficulty).toBe(16);
    const solution = solve(challenge);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        submit(form._id, solved(challenge, solution, { message: `${i}` })),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(49);
    const [only] = await submissionsOf(platform.admin, form._id);
    expect(Object.keys(only.data).sort()).toEqual(['email', 'message']);
  });

  it('is signed, bound to its form, and needs its work', async () => {
    const form = await createForm(platform.admin, { proofOfWork: true });
    const other = await createForm(platform.admin, { proofOfWork: true });
    const challenge = await challengeOf(form._id);
    const solution = solve(challenge);
    const [id = '', nonce = '', at = '', bits = '', signature = ''] =
      challenge.challenge.split('.');
    const forged = [
      [id, nonce, at, '1', signature],
      [id, nonce, String(Number(at) + 1), bits, signature],
      [other._id, nonce, at, bits, signature],
      [id, `${nonce}x`, at, bits, signature],
      [id, nonce, at, bits, 'a'.repeat(64)],
      ['x'],
    ].map((parts) => ({ challenge: parts.join('.') }));
    for (const one of forged)
      expect(await submit(form._id, solved(one, solution)), one.challenge).toMatchObject(failed);
    expect(await submit(other._id, solved(challenge, solution))).toMatchObject(failed);
    for (const wrong of ['', 'x', '-1', '1e3', '999999999999999999', String(Number(solution) + 1)])
      expect(await submit(form._id, solved(challenge, wrong)), wrong).toMatchObject(failed);
    expect((await submit(form._id, solved(challenge, solution))).status).toBe(200);
    expect((await platform.client.get('/forms/nothing/challenge')).status).toBe(404);
  });

  it('is not used up by a submission that is refused', async () => {
    const form = await createForm(platform.admin, { proofOfWork: true });
    const challenge = await challengeOf(form._id);
    const solution = solve(challenge);
    expect((await submit(form._id, solved(challenge, solution, { email: 'no' }))).status).toBe(400);
    expect((await submit(form._id, solved(challenge, solution))).status).toBe(200);
  });

  it('tells who was too quick', async () => {
    await configure({ spam: { minFillSeconds: 600 } });
    const form = await createForm(platform.admin);
    const challenge = await challengeOf(form._id);
    const { body } = await submit(form._id, solved(challenge, solve(challenge)));
    expect(await processed(platform.admin, body.submissionId)).toMatchObject({
      signals: ['timing'],
    });
    await configure({ spam: { minFillSeconds: 2 } });
  });

  it('can be requested by all forms', async () => {
    await configure({ spam: { proofOfWork: true } });
    const form = await createForm(platform.admin);
    expect((await platform.client.get(`/forms/${form._id}`)).body.proofOfWork).toBe(true);
    expect((await submit(form._id, values)).status).toBe(403);
    await configure({ spam: { proofOfWork: false } });
    expect((await submit(form._id, values)).status).toBe(200);
  });
});

it('asks the captcha of the router where that is requested', async () => {
  const form = await createForm(platform.admin);
  await configure({ captcha: { enabled: true, secretKey: 's', verifyUrl: address } }, 'router');
  await configure({ captcha: true });
  expect((await platform.client.get(`/forms/${form._id}`)).body.captcha).toBe(true);
  expect(await submit(form._id, values)).toMatchObject({
    status: 403,
    body: { code: 'FORM_CAPTCHA_REQUIRED' },
  });
  service.answer = { success: false };
  const wrong = await submit(form._id, { ...values, captchaToken: 'x' });
  expect(wrong).toMatchObject({ status: 403, body: { code: 'FORM_CAPTCHA_FAILED' } });
  service.answer = { success: true };
  for (const name of [
    'captchaToken',
    'g-recaptcha-response',
    'h-captcha-response',
    'cf-turnstile-response',
  ])
    expect((await submit(form._id, { ...values, message: name, [name]: 'x' })).status).toBe(200);
  service.status = 500;
  expect((await submit(form._id, { ...values, captchaToken: 'x' })).status).toBe(503);
  service.status = 200;
  await configure({ captcha: false });
  const data = (await submissionsOf(platform.admin, form._id)).map((one) => Object.keys(one.data));
  expect(new Set(data.flat())).toEqual(new Set(['email', 'message']));
});

it('looks addresses up only where that is switched on, and takes no answer for no objection', async () => {
  const form = await createForm(platform.admin, { ...forwarded, forwardTo: 'looked@example.com' });
  service.asked.length = 0;
  const before = await submit(form._id, values);
  await processed(platform.admin, before.body.submissionId);
  expect(service.asked).toEqual([]);
  await configure({
    spam: { lookup: 'stopforumspam', lookupUrl: `${address}/api`, lookupTimeoutMs: 300 },
  });
  service.answer = { success: 1, email: { appears: 1, blacklisted: 1 } };
  const listed = await submit(form._id, { ...values, message: 'listed' });
  expect(listed.status).toBe(200);
  expect(await processed(platform.admin, listed.body.submissionId)).toMatchObject({
    possibleSpam: true,
    signals: ['lookup'],
    forwarded: 'spam',
  });
  expect(service.asked).toEqual(['/api?json=true&email=ada%40example.com']);
  for (const [status, answer] of [
    [500, {}],
    [200, 'rubbish'],
    [0, {}],
  ] as const) {
    Object.assign(service, { status, answer });
    const { body } = await submit(form._id, { ...values, message: `${status} ${answer}` });
    expect(await processed(platform.admin, body.submissionId)).toMatchObject({
      possibleSpam: false,
      signals: ['lookupFailed'],
      forwarded: 'queued',
    });
  }
  await configure({ spam: { lookup: 'none' } });
});

it('does not tell visitors where a form goes, and nothing of one that is switched off', async () => {
  const form = await createForm(platform.admin, { ...forwarded, template: 'Secret' });
  const page = await platform.client.get(`/forms/${form._id}`);
  expect(page.text).not.toMatch(/team@example|Secret|forwardTo/);
  expect(page.body).toMatchObject({ name: form.name, honeypotField: 'website_url' });
  await platform.admin.put(`/admin/forms/${form._id}`, { enabled: false });
  for (const path of [`/forms/${form._id}`, `/forms/${form._id}/challenge`])
    expect((await platform.client.get(path)).status).toBe(404);
});

it('takes no place of people, where a form takes a bounded number; in a full one it is refused like anybody', async () => {
  const form = await createForm(platform.admin, { maxSubmissions: 2 });
  const post = async (message: string, trap = {}): Promise<number> =>
    (await submit(form._id, { ...values, message, ...trap })).status;
  const spam = { website_url: 'x' };
  expect([await post('1', spam), await post('2', spam), await post('3', spam)]).toEqual([
    200, 200, 200,
  ]);
  // A change counts anew.
  await platform.admin.put(`/admin/forms/${form._id}`, { message: 'Thanks' });
  expect([await post('4'), await post('5'), await post('6'), await post('7', spam)]).toEqual([
    200, 200, 410, 410,
  ]);
});
