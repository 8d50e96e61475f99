/** Messages of others: read as they came, their signature checked before any code runs, each taken once. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { parse as parseForm } from 'node:querystring';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { shortSql } from '../../../kernel/database/sql.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import { compileOperation } from '../../../kernel/operations/compile.ts';
import { defineOperation } from '../../../kernel/operations/operation.ts';
import {
  type DecodedInput,
  type OperationContext,
  type RequestHeaders,
  wholeBody,
} from '../../../kernel/operations/operation-input.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { outputShape, placeShape } from '../definition/inputs.ts';
import type { SignatureOptions } from '../definition/signature.ts';
import { functionErrors } from '../errors.ts';
import type { FunctionSecrets } from './functions.ts';

export interface WebhookParts {
  readonly database: Database;
  readonly secrets: Pick<FunctionSecrets, 'read'>;
}

export interface ReceivedWebhook {
  readonly rawBody: string;
  readonly body: unknown;
  /** Callers of webhooks prove themselves to the code, not to the platform. */
  readonly authorization: Readonly<Record<string, unknown>>;
  /** Notes that it was taken. Throws 409 for a message that was taken before. */
  take(database: Queryable): Promise<void>;
  /** It was not taken after all: its sender may send it again. */
  forget(): Promise<void>;
}

const DEFAULT_TOLERANCE = 300;

export async function readWebhook(
  parts: WebhookParts,
  one: StoredFunction,
  { headers = {} }: OperationContext,
  input: DecodedInput,
): Promise<ReceivedWebhook> {
  const bytes = await wholeBody(input.stream);
  const { signature } = one.inputs;
  const message = signature && (await requireSignature(parts, { one, signature, headers, bytes }));
  const rawBody = bytes.toString('utf8');
  const body = validBody(one, parsedBody(rawBody, input.stream?.contentType ?? ''));
  const { authorization } = headers;
  return {
    ...{ rawBody, body },
    authorization: authorization === undefined ? {} : { authorization },
    ...(message === undefined ? countsAlways : countingOnce(parts, one, message)),
  };
}

/** By its content type; what is neither JSON nor a form is there as `rawBody`. */
function parsedBody(text: string, type: string): unknown {
  if (type === 'application/x-www-form-urlencoded') return { ...parseForm(text) };
  if (type !== 'application/json' && !type.endsWith('+json')) return {};
  if (text === '') return {};
  try {
    return parseBoundedJson(text, 'The body');
  } catch (error) {
    throw error instanceof PenstockError ? error : errors.JSON_MALFORMED();
  }
}

const checks = new WeakMap<StoredFunction, ReturnType<typeof compileOperation>>();

/** Declared parameters of the body are checked like those of any route; without any the body is passed on whole. */
function validBody(one: StoredFunction, body: unknown): unknown {
  const shape = placeShape(one.inputs, 'bodyParams');
  if (!shape) return body;
  const compiled =
    checks.get(one) ??
    compileOperation(
      defineOperation({
        id: 'functions.webhook.body',
        surface: 'client',
        access: 'public',
        limit: 'standard',
        method: 'POST',
        path: '/',
        input: { body: shape },
        output: outputShape(null),
        summary: 'The body of a webhook',
        handler: () => ({}),
      }),
    );
  checks.set(one, compiled);
  return compiled.accept({ params: {}, query: {}, headers: {}, body }).body;
}

/* Signatures. */

interface Signed {
  readonly one: StoredFunction;
  readonly signature: SignatureOptions;
  readonly headers: RequestHeaders;
  readonly bytes: Buffer;
}

const refused = (why: string): Error => functionErrors.SIGNATURE_INVALID({ detail: why });

const headerOf = (headers: RequestHeaders, name: string): string => {
  const value = headers[name.toLowerCase()];
  if (typeof value !== 'string' || value === '') throw refused(`the header ${name} is missing`);
  return value;
};

/** Answers what names the message, where it counts once. */
async function requireSignature(parts: WebhookParts, signed: Signed): Promise<string | undefined> {
  const { one, signature } = signed;
  const secret = await parts.secrets.read(one._id, signature.secret);
  if (secret === undefined) throw refused('the secret of the signature is not set');
  if (signature.scheme === 'standard-webhooks') return requireStandard(signed, secret);
  if (signature.scheme === 'stripe') return requireStripe(signed, secret);
  return requireHmac(signed, secret);
}

type Counting = Pick<ReceivedWebhook, 'take' | 'forget'>;

const countsAlways: Counting = { take: async () => undefined, forget: async () => undefined };

const countingOnce = (
  { database }: WebhookParts,
  { _id, inputs }: StoredFunction,
  message: string,
): Counting => ({
  async take(queryable) {
    const seconds = (inputs.signature?.toleranceSec ?? DEFAULT_TOLERANCE) * 2;
    const { count } = await queryable.query(shortSql`
      insert into penstock.function_receipts (function_id, message, ends_at)
      values (${_id}::uuid, ${message}, now() + make_interval(secs => ${seconds}::double precision))
      on conflict (function_id, message) do nothing`);
    if (count === 0) throw functionErrors.FUNCTION_MESSAGE_REUSED();
  },
  // The request may be out of time by then.
  forget: () =>
    offAccount(() =>
      database.outside(async () => {
        await database.query(shortSql`
          delete from penstock.function_receipts where function_id = ${_id}::uuid and message = ${message}`);
      }),
    ),
});

function requireRecent(text: string, toleranceSec = DEFAULT_TOLERANCE): void {
  const seconds = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
  const apart = Math.abs(Date.now() / 1_000 - seconds);
  if (!(apart <= toleranceSec)) throw refused('the time of the message is too far from now');
}

/** Signatures of one message that are looked at: by the secret before and by the new one. */
const MAX_SIGNATURES = 20;

/**
 * Standard Webhooks: `v1,<base64>` over `<id>.<timestamp>.<body>`; the secret may be `whsec_<base64>`. Its headers may
 * have their older names, which begin with `svix-`.
 */
function requireStandard({ signature, headers, bytes }: Signed, secret: string): string {
  const isOlder = headers['webhook-id'] === undefined && headers['svix-id'] !== undefined;
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((word) =>
    headerOf(headers, `${isOlder ? 'svix' : 'webhook'}-${word}`),
  ) as [string, string, string];
  const given = signatures.split(' ').slice(0, MAX_SIGNATURES);
  requireRecent(timestamp, signature.toleranceSec);
  const key = secret.startsWith('whsec_')
    ? Buffer.from(secret.slice('whsec_'.length), 'base64')
    : Buffer.from(secret, 'utf8');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(bytes).digest();
  const fits = given
    .filter((text) => text.startsWith('v1,'))
    .some((text) => same(Buffer.from(text.slice(3), 'base64'), expected));
  if (!fits) throw refused('no signature fits');
  return id.slice(0, 256);
}

/** Stripe: `t=<timestamp>,v1=<hex>,...` over `<timestamp>.<body>`. */
function requireStripe({ signature, headers, bytes }: Signed, secret: string): string {
  const parts = headerOf(headers, 'stripe-signature').split(',').slice(0, MAX_SIGNATURES);
  const valuesOf = (word: string): readonly string[] =>
    parts.filter((part) => part.startsWith(`${word}=`)).map((part) => part.slice(word.length + 1));
  const [timestamp = ''] = valuesOf('t');
  requireRecent(timestamp, signature.toleranceSec);
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(bytes).digest();
  if (!valuesOf('v1').some((text) => same(Buffer.from(text, 'hex'), expected)))
    throw refused('no signature fits');
  return expected.toString('hex');
}

/** How senders write a digest of the body, under their names. */
const digests: ReadonlyMap<string, Partial<SignatureOptions>> = new Map([
  ['github', { header: 'x-hub-signature-256', prefix: 'sha256=' }],
  ['shopify', { header: 'x-shopify-hmac-sha256', format: 'base64' }],
  [
    'slack',
    {
      header: 'x-slack-signature',
      prefix: 'v0=',
      timestampHeader: 'x-slack-request-timestamp',
    },
  ],
]);

/** A digest of the body. Answers what names the message where a time bounds how long it counts. */
function requireHmac({ signature, headers, bytes }: Signed, secret: string): string | undefined {
  const { scheme } = signature;
  const options = { ...signature, ...digests.get(scheme) };
  const { header = '', format = 'hex', prefix = '', timestampHeader, toleranceSec } = options;
  const given = headerOf(headers, header);
  if (!given.startsWith(prefix)) throw refused('the signature has another prefix');
  const digest = createHmac('sha256', secret);
  if (timestampHeader !== undefined) {
    const timestamp = headerOf(headers, timestampHeader);
    requireRecent(timestamp, toleranceSec);
    digest.update(scheme === 'slack' ? `v0:${timestamp}:` : `${timestamp}.`);
  }
  const expected = digest.update(bytes).digest();
  if (!same(Buffer.from(given.slice(prefix.length), format), expected))
    throw refused('the signature does not fit');
  return timestampHeader === undefined ? undefined : expected.toString('hex');
}

const same = (left: Buffer, right: Buffer): boolean =>
  left.length === right.length && timingSafeEqual(left, right);
