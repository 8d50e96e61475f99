/** Who may see or set a single field: the rules that a definition can name. */
import { cutText } from '../text.ts';

/**
 * - `public`: everybody who may read or write the record
 * - `user`: signed-in users
 * - `owner`: the user that the owner field names, or the `owner` relation of row authorization
 * - `role`: users who hold a role
 * - `relation`: users who have a relation to the record, or an action on it, by row authorization
 * - `admin`: no client at all
 */
export type AccessRule =
  | { readonly kind: 'public' | 'user' | 'owner' | 'admin' }
  | { readonly kind: 'role' | 'relation'; readonly name: string };

export interface FieldAccess {
  readonly read: AccessRule;
  readonly write: AccessRule;
}

const everybody: AccessRule = { kind: 'public' };
const plainKinds = ['public', 'user', 'owner', 'admin'] as const;
const named = /^(role|relation):([A-Za-z_][\w .-]{0,63})$/;
const choices = 'public, user, owner, admin, role:<name> or relation:<name>';

/** The rule that a text means, if any. */
export function readRule(text: unknown): AccessRule | undefined {
  const kind = plainKinds.find((one) => one === text);
  if (kind) return { kind };
  const [, prefix, name] = typeof text === 'string' ? (named.exec(text) ?? []) : [];
  return prefix && name ? { kind: prefix === 'role' ? 'role' : 'relation', name } : undefined;
}

/** The `access` option of a field; faults are reported with their place below it. */
export function readAccess(value: unknown, report: (place: string, message: string) => undefined): FieldAccess | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return report('', 'must be an object with read, write or both');
  const stray = Object.keys(value).find((key) => key !== 'read' && key !== 'write');
  if (stray !== undefined) return report(`.${cutText(stray, 64)}`, 'is not known: there are read and write');
  const { read: wantedRead = 'public', write: wantedWrite = 'public' } = value as { read?: unknown; write?: unknown };
  const [read, write] = [readRule(wantedRead), readRule(wantedWrite)];
  if (!read) report('.read', `must be ${choices}`);
  if (!write) report('.write', `must be ${choices}`);
  return read && write ? { read, write } : undefined;
}

/** Who may see a field. */
export const readRuleOf = ({ access }: { readonly access?: FieldAccess }): AccessRule => access?.read ?? everybody;
/** Who may set it. */
export const writeRuleOf = ({ access }: { readonly access?: FieldAccess }): AccessRule => access?.write ?? everybody;
