/**
 * Codes of an authenticator app, as the second factor of an account of any kind: users and admins differ in their
 * tables only. The secret is sealed at rest and shown once; a code works once.
 */
import type { Database, Queryable, Statement } from '../../database/database.ts';
import { statementName } from '../../database/sql.ts';
import type { SecretBox } from '../secret-box.ts';

/*
 * One-time codes by time (RFC 6238: SHA-1, six digits, steps of 30 seconds), as authenticator apps make
 * them. Who keeps a secret also keeps the last step that was used, so that a code works once.
 */

/** What an authenticator app needs. Shown once, to the person alone. */
export interface TotpEnrolment {
  /** PNG as a data URI: nothing leaves the machine. */
  readonly image: string;
  readonly uri: string;
  readonly secret: string;
}

const stepSeconds = 30;
/** One step before and after, for clocks that differ. */
const toleranceSeconds = 30;
const codeShape = /^\d{6}$/;

/** Base32, 160 bits. The library is loaded at the first use: most starts never need it. */
async function newTotpSecret(): Promise<string> {
  const { generateSecret } = await import('otplib');
  return generateSecret();
}

/** `issuer` and `label` name the entry in the app. */
async function describeTotp(
  secret: string,
  names: { readonly issuer: string; readonly label: string },
): Promise<TotpEnrolment> {
  const [{ generateURI }, { toDataURL }] = await Promise.all([import('otplib'), import('qrcode')]);
  const uri = generateURI({ ...names, secret });
  return { image: await toDataURL(uri), uri, secret };
}

/** The step that a code (see `tidyCode`) belongs to, now or one step away; nothing when it is wrong. */
async function totpStep(secret: string, code: string): Promise<number | undefined> {
  if (!codeShape.test(code)) return undefined;
  const { verifySync } = await import('otplib');
  const result = verifySync({
    secret,
    token: code,
    period: stepSeconds,
    epochTolerance: toleranceSeconds,
  });
  return result.valid && 'timeStep' in result ? result.timeStep : undefined;
}

/** A code as people type it, without the spaces in which apps show it. */
export const tidyCode = (code: string): string => code.replace(/\s/g, '');

export interface Authenticator {
  /** A new secret, in force after `confirm`; nothing when a confirmed one stands. `label` names the entry in the app. */
  enrol(ownerId: string, label: string): Promise<TotpEnrolment | undefined>;
  /** Whether a secret waits for its proof: a quarter of an hour, so that what was begun long ago is not finished by chance. */
  isPending(database: Queryable, ownerId: string): Promise<boolean>;
  /** Whether there is a secret in force. */
  isOn(database: Queryable, ownerId: string): Promise<boolean>;
  /** Proves the pending secret and uses the code (see `tidyCode`) up; false when the code is wrong. */
  confirm(transaction: Queryable, ownerId: string, code: string): Promise<boolean>;
  /** Uses a code up: true for exactly one of all who try it. */
  use(ownerId: string, code: string): Promise<boolean>;
  discardPending(database: Queryable, ownerId: string): Promise<void>;
  remove(database: Queryable, ownerId: string): Promise<void>;
}

/**
 * Where the secrets of one kind of account are: `secret`, `confirmed`, `last_step` and `created_at` by owner. The names
 * are constants of the code, never input.
 */
export interface SecretTable {
  readonly table: string;
  readonly owner: string;
}

export interface AuthenticatorOptions extends SecretTable {
  readonly database: Database;
  readonly secrets: SecretBox;
  /** What seals are bound to, together with the owner. */
  readonly context: string;
  /** Names the platform in the app. */
  readonly issuer: () => string;
}

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { database, secrets, context, issuer } = options;
  const statements = statementsOf(options);
  const sealContext = (ownerId: string): string => `${context}:${ownerId}`;
  const stepOf = (sealed: string, ownerId: string, code: string) =>
    totpStep(secrets.open(sealed, sealContext(ownerId)), code);

  return {
    async enrol(ownerId, label) {
      const secret = await newTotpSecret();
      const sealed = secrets.seal(secret, sealContext(ownerId));
      const stored = await changesOne(database, statements.storePending(ownerId, sealed));
      return stored ? describeTotp(secret, { issuer: issuer(), label }) : undefined;
    },
    isPending: async (queryable, ownerId) =>
      (await secretOf(queryable, statements.pending(ownerId))) !== undefined,
    isOn: async (queryable, ownerId) =>
      (await secretOf(queryable, statements.inForce(ownerId))) !== undefined,
    async confirm(transaction, ownerId, code) {
      const sealed = await secretOf(transaction, statements.pending(ownerId));
      const step = sealed === undefined ? undefined : await stepOf(sealed, ownerId, code);
      return (
        step !== undefined &&
        changesOne(transaction, statements.confirm(ownerId, String(sealed), step))
      );
    },
    async use(ownerId, code) {
      const sealed = await secretOf(database, statements.inForce(ownerId));
      const step = sealed === undefined ? undefined : await stepOf(sealed, ownerId, code);
      return step !== undefined && changesOne(database, statements.takeStep(ownerId, step));
    },
    discardPending: async (queryable, ownerId) =>
      void (await queryable.query(statements.discardPending(ownerId))),
    remove: async (queryable, ownerId) => void (await queryable.query(statements.remove(ownerId))),
  };
}

const changesOne = async (database: Queryable, statement: Statement): Promise<boolean> =>
  (await database.query(statement)).count === 1;

const secretOf = async (database: Queryable, statement: Statement): Promise<string | undefined> =>
  (await database.query<{ readonly secret: string }>(statement)).rows[0]?.secret;

function statementsOf({ table, owner }: SecretTable) {
  const statement =
    <V extends readonly unknown[]>(text: string) =>
    (...values: V): Statement => ({ text, name: statementName(text), values });
  const ofOwner = `where ${owner} = $1::uuid`;
  return {
    /** In the place of an earlier one that is not confirmed. Nothing changes when a confirmed one stands. */
    storePending: statement<[ownerId: string, sealed: string]>(
      `insert into ${table} as stored (${owner}, secret) values ($1::uuid, $2)
       on conflict (${owner}) do update set secret = excluded.secret, last_step = null, created_at = now() where not stored.confirmed`,
    ),
    inForce: statement<[ownerId: string]>(`select secret from ${table} ${ofOwner} and confirmed`),
    pending: statement<[ownerId: string]>(
      `select secret from ${table} ${ofOwner} and not confirmed and created_at > now() - interval '15 minutes'`,
    ),
    /** If the pending secret is still this one. */
    confirm: statement<[ownerId: string, sealed: string, step: number]>(
      `update ${table} set confirmed = true, last_step = $3::bigint ${ofOwner} and not confirmed and secret = $2`,
    ),
    /** Never an earlier step than the last. */
    takeStep: statement<[ownerId: string, step: number]>(
      `update ${table} set last_step = $2::bigint ${ofOwner} and confirmed and (last_step is null or last_step < $2::bigint)`,
    ),
    discardPending: statement<[ownerId: string]>(
      `delete from ${table} ${ofOwner} and not confirmed`,
    ),
    remove: statement<[ownerId: string]>(`delete from ${table} ${ofOwner}`),
  };
}
