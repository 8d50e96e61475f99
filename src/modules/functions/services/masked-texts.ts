/** Texts that runs leave behind: without the secrets that their function has read, and only of what the database takes. */
import {
  currentAccount,
  type RequestAccount,
} from '../../../kernel/request-account/request-account.ts';

/** Secrets that are shorter than this are not looked for: they would blot out words. */
const SHORTEST_MASKED = 4;
/** Of one function: with those that were replaced since. */
const MAX_MASKED = 200;
/** Characters of the beginning of a secret at the end of a text that was cut, from which on they are taken for it. */
const SHORTEST_BEGINNING = 6;
const MASK = '********';

/**
 * By function, longest first: what a run has read stays in its isolate, where code keeps it for later runs. These write it
 * into their log without having asked for it.
 */
const secretsRead = new Map<string, readonly string[]>();

function noteSecret(functionId: string, value: string): void {
  if (value.length < SHORTEST_MASKED) return;
  secretsRead.set(functionId, withSecret(secretsRead.get(functionId) ?? [], value));
}

/** Of one request: what one run of it has read it may hand to the others, by an argument, a result or the request itself. */
export class SharedSecrets {
  readonly #functions: string[] = [];
  readonly #values: string[] = [];

  /** A run of the function begins: what is known so far may come to it. */
  join(functionId: string): void {
    if (this.#functions.includes(functionId)) return;
    this.#functions.push(functionId);
    for (const value of this.#values) noteSecret(functionId, value);
  }

  note(value: string): void {
    if (this.#values.includes(value)) return;
    if (this.#values.length < MAX_MASKED) this.#values.push(value);
    for (const one of this.#functions) noteSecret(one, value);
  }
}

const ofRequests = new WeakMap<RequestAccount, SharedSecrets>();

/** What the runs of this flow's request share; a run outside of any has its own. */
export function sharedSecrets(): SharedSecrets {
  const account = currentAccount()?.whole;
  const known = account && ofRequests.get(account);
  if (known) return known;
  const made = new SharedSecrets();
  if (account) ofRequests.set(account, made);
  return made;
}

/** In JSON it stands with its line breaks and quotes escaped. */
const withSecret = (known: readonly string[], value: string): readonly string[] =>
  known.includes(value)
    ? known
    : [...new Set([value, JSON.stringify(value).slice(1, -1), ...known])]
        .slice(0, MAX_MASKED)
        .sort((a, b) => b.length - a.length);

/** `mayBeCut`: the text may end in the middle of one. */
export function withoutSecrets(functionId: string, text: string, mayBeCut: boolean): string {
  const secrets = secretsRead.get(functionId) ?? [];
  let masked = text.toWellFormed().replaceAll('\0', '\ufffd');
  for (const secret of secrets) masked = masked.replaceAll(secret, MASK);
  if (!mayBeCut) return masked;
  for (const secret of secrets) {
    const at = beginningAtEnd(masked, secret);
    if (at >= 0) masked = masked.slice(0, at) + MASK;
  }
  return masked;
}

/** Where the beginning of a secret stands that goes on behind the end of the text; -1 where none does. */
function beginningAtEnd(text: string, secret: string): number {
  const head = secret.slice(0, SHORTEST_BEGINNING);
  if (head.length < SHORTEST_BEGINNING) return -1;
  let at = text.indexOf(head, Math.max(0, text.length - secret.length + 1));
  while (at >= 0 && !secret.startsWith(text.slice(at))) at = text.indexOf(head, at + 1);
  return at;
}
