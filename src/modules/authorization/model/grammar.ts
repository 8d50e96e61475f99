/**
 * How objects and subjects are written (spec/authorization.md 5.1, 5.2):
 * `Type:id`, and for subjects also `Type:id#relation` (everybody who stands in
 * that relation) and `Type:*` (every object of the type).
 */
import { invalid, type PenstockError } from '../../../kernel/errors.ts';

/** One object. */
export interface ObjectRef {
  readonly type: string;
  readonly id: string;
}

/** Who stands on the left side of a tuple. `relation` is empty for a plain object; `id` is `*` for the wildcard. */
export interface SubjectRef extends ObjectRef {
  readonly relation: string;
  /** Somebody acts for it by an action of its own (`actAs`): then it is not its own master (`isSelf`). Never part of a tuple. */
  readonly represented?: true;
}

/** Names of types, relations, actions and conditions. */
const namePattern = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** Characters of an id, as in the pattern. */
const maxIdLength = 1_024;

/** Ids: anything visible except the characters that the grammar uses. */
const idPattern = /^[^\s:#@*,\p{C}]{1,1024}$/u;

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Longest tuple text `subject#relation@resource`, in bytes: two ids of 1,024 ASCII characters. What is longer fits into no index. */
export const maxTupleBytes = 2_320;

export const isName = (text: string): boolean => namePattern.test(text);

const objectHelp = 'must be written <Type>:<id>; the id holds no space and none of : # @ * ,';
const subjectHelp = 'must be written <Type>:<id>, <Type>:<id>#<relation>, <Type>:* or *';

/** Everybody, visitors without an account too: the subject `*`. */
export const everybody: SubjectRef = { type: '*', id: '*', relation: '' };

export const isEverybody = ({ type }: Pick<SubjectRef, 'type'>): boolean => type === '*';

/** The subject as tuples may name it: by itself, as one of everybody of its type, as one of everybody. */
export function formsOf(subject: SubjectRef): readonly SubjectRef[] {
  if (subject.relation !== '') return [subject];
  if (isEverybody(subject)) return [everybody];
  const ofType = { type: subject.type, id: '*', relation: '' };
  return subject.id === '*' ? [subject, everybody] : [subject, ofType, everybody];
}

/** Parses `Type:id`; 400 that names `path` otherwise. */
export function parseObject(text: string, path: string): ObjectRef {
  const parsed = objectOf(text);
  if (!parsed) throw unwritten(text, path, objectHelp);
  return parsed;
}

/** Parses the forms of a subject; 400 that names `path` otherwise. */
export function parseSubject(text: string, path: string): SubjectRef {
  if (text === '*') return everybody;
  const hash = text.indexOf('#');
  const objectText = hash < 0 ? text : text.slice(0, hash);
  const relation = hash < 0 ? '' : text.slice(hash + 1);
  if (hash >= 0 && !isName(relation)) throw unwritten(objectText, path, subjectHelp);
  if (hash < 0 && objectText.endsWith(':*') && isName(objectText.slice(0, -2))) {
    return { type: objectText.slice(0, -2), id: '*', relation: '' };
  }
  const object = objectOf(objectText);
  if (!object) throw unwritten(objectText, path, subjectHelp);
  return { ...object, relation };
}

/** Why a text names no object: what is too long is told so, since it may be written rightly. */
function unwritten(text: string, path: string, help: string): PenstockError {
  const id = text.slice(text.indexOf(':') + 1);
  return id.length > maxIdLength && [...id].length > maxIdLength
    ? invalid(path, 'maxLength', `an id has at most ${maxIdLength} characters`)
    : invalid(path, 'reference', help);
}

function objectOf(text: string): ObjectRef | undefined {
  const colon = text.indexOf(':');
  if (colon < 0) return undefined;
  const type = text.slice(0, colon);
  const id = text.slice(colon + 1);
  return isName(type) && isObjectId(id) ? { type, id: canonicalId(id) } : undefined;
}

/** True for what can be the id of an object. */
export const isObjectId = (id: string): boolean => idPattern.test(id) && id.isWellFormed();

/** Ids of records may be written in either case, as everywhere; others are what they are. */
const canonicalId = (id: string): string => (uuidPattern.test(id) ? id.toLowerCase() : id);

/** True for the id of an object in the form in which ids are compared. */
export const isCanonicalId = (id: string): boolean => isObjectId(id) && canonicalId(id) === id;

export const sameObject = (a: ObjectRef, b: ObjectRef): boolean =>
  a.id === b.id && a.type === b.type;

export const formatObject = (object: ObjectRef): string => `${object.type}:${object.id}`;

export function formatSubject(subject: SubjectRef): string {
  if (isEverybody(subject)) return '*';
  return subject.relation === ''
    ? formatObject(subject)
    : `${formatObject(subject)}#${subject.relation}`;
}

/* What records themselves say about who stands in a relation to them. */

/** A field of the records of a type that says who stands in a relation. */
export interface RecordField {
  /** Name of the field, and of its column. */
  readonly field: string;
  /** It holds a list. */
  readonly many: boolean;
  /** Type of the objects that it names. */
  readonly type: string;
  /**
   * Column of the type of what it names, where that differs from record to record; null: `type`. What stands in such
   * a column counts beside stored tuples, not instead of them.
   */
  readonly typeColumn?: string;
}

/** Says all that a field means: another text for another meaning of the same column. */
export const fieldKey = ({ field, many, type, typeColumn }: RecordField): string =>
  JSON.stringify([field, many, type, typeColumn ?? null]);

/** The relation in which the creator stands to a record (spec/authorization.md 5.6). */
export const ownerRelation = 'owner';

/** The columns of a record that say who owns it (services/owner-columns.ts). No field can have such a name. */
export const ownerColumn = {
  field: '@owner',
  many: false,
  type: 'User',
  typeColumn: '@ownerType',
} as const satisfies RecordField;
