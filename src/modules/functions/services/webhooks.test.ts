/** Signatures of messages, as their senders write them. */
import { createHmac } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { SignatureOptions } from '../definition/signature.ts';
import { readWebhook, type WebhookParts } from './webhooks.ts';

const body = '{"paid":12}';
const now = String(Math.floor(Date.now() / 1_000));
const old = String(Number(now) - 3_600);
const key = Buffer.from('a key of twenty-four bytes');

const parts = (secret: string) =>
  ({ secrets: { read: async () => secret } }) as unknown as WebhookParts;

async function read(scheme: SignatureOptions['scheme'], headers: object, secret = 'secret') {
  const one = { _id: 'f', inputs: { method: 'POST', signature: { scheme, secret: 'S' } } };
  const stream = Object.assign(Readable.from([Buffer.from(body)]), {
    contentType: 'application/json',
  });
  const { rawBody } = await readWebhook(
    parts(secret),
    one as unknown as StoredFunction,
    { headers } as unknown as OperationContext,
    { stream } as unknown as DecodedInput,
  );
  return rawBody;
}

const digest = (text: string, encoding: 'hex' | 'base64', secret: string | Buffer = 'secret') =>
  createHmac('sha256', secret).update(text).digest(encoding);

const stripe = (time: string, text = body) => digest(`${time}.${text}`, 'hex');
const slack = (time: string, text = body) => ({
  'x-slack-request-timestamp': time,
  'x-slack-signature': `v0=${digest(`v0:${time}:${text}`, 'hex')}`,
});

it.each([
  ['stripe', { 'stripe-signature': `t=${now},v1=${stripe(now)}` }],
  ['stripe', { 'stripe-signature': `t=${now},v1=00,v0=11,v1=${stripe(now)}` }],
  ['slack', slack(now)],
  ['github', { 'x-hub-signature-256': `sha256=${digest(body, 'hex')}` }],
  ['shopify', { 'x-shopify-hmac-sha256': digest(body, 'base64') }],
] as const)('takes what %s signs: %j', async (scheme, headers) => {
  expect(await read(scheme, headers)).toBe(body);
});

it.each([
  ['stripe', {}],
  ['stripe', { 'stripe-signature': '' }],
  ['stripe', { 'stripe-signature': `t=${now}` }],
  ['stripe', { 'stripe-signature': `v1=${stripe('')}` }],
  ['stripe', { 'stripe-signature': `t=${old},v1=${stripe(old)}` }],
  ['stripe', { 'stripe-signature': `t=${now},t=${old},v1=${stripe(old)}` }],
  ['stripe', { 'stripe-signature': `t=${now},v1=${stripe(now, 'another')}` }],
  ['stripe', { 'stripe-signature': `t=${now},v0=${stripe(now)}` }],
  ['slack', slack(old)],
  ['slack', slack(now, 'another')],
  ['slack', { ...slack(old), 'x-slack-request-timestamp': now }],
  ['slack', { 'x-slack-signature': `v0=${digest(body, 'hex')}` }],
  ['github', { 'x-hub-signature-256': digest(body, 'hex') }],
  ['github', { 'x-hub-signature-256': `sha256=${digest('another', 'hex')}` }],
  ['shopify', { 'x-shopify-hmac-sha256': digest(body, 'hex') }],
] as const)('refuses what %s has not signed: %j', async (scheme, headers) => {
  await expect(read(scheme, headers)).rejects.toMatchObject({ code: 'SIGNATURE_INVALID' });
});

it.each(['webhook', 'svix'])('takes a standard message with headers of %s', async (word) => {
  const headers = {
    [`${word}-id`]: 'm1',
    [`${word}-timestamp`]: now,
    [`${word}-signature`]: `v1,${digest(`m1.${now}.${body}`, 'base64', key)}`,
  };
  const secret = `whsec_${key.toString('base64')}`;
  expect(await read('standard-webhooks', headers, secret)).toBe(body);
  const half = { ...headers, 'webhook-id': 'm2' };
  await expect(read('standard-webhooks', half, secret)).rejects.toMatchObject({
    code: 'SIGNATURE_INVALID',
  });
});
