/**
 * Ten codes for the day on which the second factor is lost, for accounts of any kind. Each works once; only keyed
 * digests are kept.
 */
import { randomInt } from 'node:crypto';
import type { Database, Queryable, Statement } from '../../database/database.ts';
import { statementName } from '../../database/sql.ts';
import type { SecretBox } from '../secret-box.ts';

export interface RecoveryCodes {
  /** A new set in the place of the old one, as people write it; for an account whose row the transaction has locked. */
  make(transaction: Queryable, ownerId: string): Promise<readonly string[]>;
  /** Uses one up: true for exactly one of all who try it. Case, spaces and dashes do not matter. */
  use(ownerId: string, code: string): Promise<boolean>;
  left(ownerId: string): Promise<number>;
  remove(transaction: Queryable, ownerId: string): Promise<void>;
}

/** How codes look: two groups of equal length. */
export interface CodeFormat {
  readonly alphabet: string;
  readonly length: number;
  readonly separator: string;
}

/** `dddd dddd`, as the interface has them for users. */
export const digitCodes: CodeFormat = { alphabet: '0123456789', length: 8, separator: ' ' };
/** `xxxxx-xxxxx`, without letters and digits that look alike: 49 bits. */
export const letterCodes: CodeFormat = {
  alphabet: 'abcdefghjkmnpqrstuvwxyz23456789',
  length: 10,
  separator: '-',
};

export interface RecoveryCodeOptions {
  readonly database: Database;
  readonly secrets: SecretBox;
  /** `digest` and `used_at` by owner. The names are constants of the code, never input. */
  readonly table: string;
  readonly owner: string;
  /** What digests are bound to, together with the owner. */
  readonly context: string;
  readonly format: CodeFormat;
}

const howMany = 10;

export function createRecoveryCodes(options: RecoveryCodeOptions): RecoveryCodes {
  const { database, secrets, table, owner, context, format } = options;
  const digestOf = (ownerId: string, code: string): string =>
    secrets.digest(code, `${context}:${ownerId}`);
  const statement = (text: string, ...values: readonly unknown[]): Statement => ({
    text,
    name: statementName(text),
    values,
  });
  const remove = async (transaction: Queryable, ownerId: string): Promise<void> => {
    await transaction.query(statement(`delete from ${table} where ${owner} = $1::uuid`, ownerId));
  };

  return {
    async make(transaction, ownerId) {
      const codes = distinctCodes(format);
      await remove(transaction, ownerId);
      await transaction.query(
        statement(
          `insert into ${table} (${owner}, digest) select $1::uuid, unnest($2::text[])`,
          ownerId,
          codes.map((code) => digestOf(ownerId, code)),
        ),
      );
      return codes.map((code) => written(format, code));
    },
    async use(ownerId, given) {
      const code = given.replace(/[\s-]/g, '').toLowerCase();
      if (!fits(format, code)) return false;
      const { count } = await database.query(
        statement(
          `update ${table} set used_at = now() where ${owner} = $1::uuid and digest = $2 and used_at is null`,
          ownerId,
          digestOf(ownerId, code),
        ),
      );
      return count === 1;
    },
    async left(ownerId) {
      const { rows } = await database.query<{ left: number }>(
        statement(
          `select count(*)::integer as left from ${table} where ${owner} = $1::uuid and used_at is null`,
          ownerId,
        ),
      );
      return rows[0]?.left ?? 0;
    },
    remove,
  };
}

function distinctCodes({ alphabet, length }: CodeFormat): readonly string[] {
  const codes = new Set<string>();
  while (codes.size < howMany)
    codes.add(Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join(''));
  return [...codes];
}

const written = ({ length, separator }: CodeFormat, code: string): string =>
  code.slice(0, length / 2) + separator + code.slice(length / 2);

const fits = ({ alphabet, length }: CodeFormat, code: string): boolean =>
  code.length === length && [...code].every((character) => alphabet.includes(character));
