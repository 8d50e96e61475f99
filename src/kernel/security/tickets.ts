/**
 * Tickets: a short text that stands for a secret for some seconds and is worth it once, on whichever node it is shown.
 * What it stands for is sealed, and of the ticket itself only a digest is kept: who reads the table can redeem nothing.
 */
import type { Database } from '../database/database.ts';
import { shortSql } from '../database/sql.ts';
import type { SecretBox } from './secret-box.ts';
import { randomToken, sha256 } from './tokens.ts';

export interface Tickets {
  /** `purpose`: where it is worth something, and nowhere else. */
  issue(purpose: string, content: string, seconds: number): Promise<string>;
  /** What it stands for; nothing when it is unknown, has ended or was taken before. */
  take(purpose: string, ticket: string): Promise<string | undefined>;
}

interface Dependencies {
  readonly database: Database;
  readonly secrets: Pick<SecretBox, 'seal' | 'open'>;
}

/** Longer texts are nobody's ticket. */
const LONGEST = 128;
/** Tickets that have ended and go with each new one, so that the table stays as small as what is open. */
const GONE = 20;

export function createTickets({ database, secrets }: Dependencies): Tickets {
  const digestOf = (purpose: string, ticket: string): string => sha256(`${purpose}\0${ticket}`);
  return {
    async issue(purpose, content, seconds) {
      const ticket = randomToken();
      const digest = digestOf(purpose, ticket);
      const sealed = secrets.seal(content, `penstock/ticket/${digest}`);
      await database.query(shortSql`
        with gone as (delete from penstock.tickets where digest in (
          select digest from penstock.tickets where expires_at < now() order by expires_at limit ${GONE}::integer
          for update skip locked))
        insert into penstock.tickets (digest, sealed, expires_at)
        values (${digest}, ${sealed}, now() + ${seconds}::float8 * interval '1 second')`);
      return ticket;
    },
    async take(purpose, ticket) {
      if (ticket === '' || ticket.length > LONGEST) return undefined;
      const digest = digestOf(purpose, ticket);
      const { rows } = await database.query<{ sealed: string; open: boolean }>(shortSql`
        delete from penstock.tickets where digest = ${digest} returning sealed, expires_at > now() as open`);
      const [row] = rows;
      return row?.open ? secrets.open(row.sealed, `penstock/ticket/${digest}`) : undefined;
    },
  };
}
