/**
 * What users and admins may write into an account beside its built-in fields: the fields by which the
 * schema `User` was extended, and nothing else. An allow-list, so that no spelling of a built-in field
 * (dotted, with an operator, inherited) can get through. Users write those that are declared open; a field that
 * says nothing is the server's.
 */
import type { Static } from 'typebox';
import { publicRecords } from '../../../../data/records/read/public-records.ts';
import type { RecordInput } from '../../../../data/records/store.ts';
import { type AccessRule, readRule } from '../../../../data/schema/language/field.ts';
import type { PublicView } from '../../../../data/schema/public-view.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import { valueAt } from '../../../../kernel/config/tree.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { PenstockError, type Problem } from '../../../../kernel/errors.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { cutText } from '../../../../kernel/text.ts';
import type { userDataConfig } from '../../config/local.ts';
import type { ProfilesConfig } from '../../config/profiles.ts';
import { authErrors } from '../../errors.ts';
import { builtInFields, userSchema } from '../../schemas.ts';

/** The names that `userData` may hold now, whoever writes it. */
export function extensionFields(schemas: SchemaRegistry): ReadonlySet<string> {
  return new Set(extensionsOf(schemas).map(([name]) => name));
}

const extensionsOf = (schemas: SchemaRegistry): readonly (readonly [string, unknown])[] =>
  Object.entries(schemas.get(userSchema.name)?.compiledFields ?? {}).filter(
    ([name]) => !builtInFields.has(name),
  );

/** What the configuration says about fields whose definition does not say who may write them. */
export type UserDataConfig = Static<typeof userDataConfig>;

/** A user, or somebody who is about to be one. Operators and the server itself are no such writer. */
interface Writer {
  readonly config: UserDataConfig;
  /** Names of the roles that the user holds. */
  readonly roles?: ReadonlySet<string>;
}

const server: AccessRule = { kind: 'admin' };
const themselves: AccessRule = { kind: 'user' };

/** `access.read` or `access.write` of a field as it was written. */
const declaredRule = (definition: unknown, side: 'read' | 'write'): AccessRule | undefined =>
  readRule(valueAt(definition, ['access', side]));

const isMet = (rule: AccessRule, roles: ReadonlySet<string> | undefined): boolean =>
  rule.kind === 'role'
    ? roles?.has(rule.name) === true
    : rule.kind === 'public' || rule.kind === 'user';

/** Whether it depends on the roles of users what they may read and write of their own accounts. */
export const asksForRoles = (schemas: SchemaRegistry): boolean =>
  extensionsOf(schemas).some(([, definition]) =>
    (['read', 'write'] as const).some((side) => declaredRule(definition, side)?.kind === 'role'),
  );

/** The fields that users may write about themselves: what their definition says, else what the configuration says of old. */
export function writableFields(
  schemas: SchemaRegistry,
  { config, roles }: Writer,
): ReadonlySet<string> {
  const byConfig = (name: string): AccessRule =>
    config.openByDefault || config.openFields.includes(name) ? themselves : server;
  const open = extensionsOf(schemas).filter(([name, definition]) =>
    isMet(declaredRule(definition, 'write') ?? byConfig(name), roles),
  );
  return new Set(open.map(([name]) => name));
}

/**
 * The data itself when all of its keys are allowed; throws 400 that names each other key. Without a `writer` the
 * server or an operator writes, who may set every field that extends the user.
 */
export function allowedUserData(
  schemas: SchemaRegistry,
  userData: Readonly<Record<string, unknown>>,
  writer?: Writer,
): RecordInput {
  const known = extensionFields(schemas);
  const allowed = writer ? writableFields(schemas, writer) : known;
  const problems = Object.keys(userData)
    .filter((name) => !allowed.has(name))
    .map((name): Problem => {
      const path = `userData.${cutText(name, 100)}`;
      if (!known.has(name))
        return { path, rule: 'unknown', message: 'this is not a field that extends the user' };
      return {
        path,
        rule: 'access',
        message: 'only the server sets this field: its access.write does not open it to you',
      };
    });
  if (problems.length > 0) throw authErrors.USER_DATA_UNKNOWN({ errors: problems });
  return userData;
}

/** A user record as JSON without the fields that its reader may not see. `roles`: those of the user who reads it. */
export function userView(
  schemas: SchemaRegistry,
  json: string,
  roles?: ReadonlySet<string>,
): string {
  const closed = extensionsOf(schemas).filter(([, definition]) => {
    const rule = declaredRule(definition, 'read');
    return rule !== undefined && !isMet(rule, roles);
  });
  if (closed.length === 0) return json;
  const hidden = new Set(closed.map(([name]) => name));
  return JSON.stringify(
    Object.fromEntries(
      Object.entries(JSON.parse(json) as object).filter(([name]) => !hidden.has(name)),
    ),
  );
}

/** Runs a write of a user record: problems get the place they have in the request, a taken name gets its own error. */
export async function writingUser<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw error instanceof PenstockError ? translated(error) : error;
  }
}

const taken = new Map([
  ['email', authErrors.USER_EXISTS],
  ['username', authErrors.USERNAME_EXISTS],
  ['phoneNumber', authErrors.PHONE_NUMBER_EXISTS],
]);

function translated(error: PenstockError): PenstockError {
  const { errors: problems } = error;
  if (!problems) return error;
  const conflict = problems
    .map(({ path }) => taken.get(path))
    .find((factory) => factory !== undefined);
  if (error.status === 409 && conflict) return conflict({ errors: problems });
  const moved = problems.map((problem) =>
    builtInFields.has(problem.path) ? problem : { ...problem, path: `userData.${problem.path}` },
  );
  const details = {
    message: error.message,
    errors: moved,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
  };
  return new PenstockError(error.code, error.status, error.message, details);
}

/* Takes the fields that users could write before an upgrade over into the configuration, once. */

interface Dependencies extends Pick<Kernel, 'database' | 'config'> {
  readonly userDataConfig: () => UserDataConfig;
  readonly log: Logger;
}

/**
 * Moves them in the background, because a configuration changes only once its module has started. Doing it on two
 * nodes at once comes to the same.
 */
export async function migrateOpenFields(dependencies: Dependencies): Promise<void> {
  const { rows } = await dependencies.database.query<{ field: string }>(
    sql`select field from penstock.open_user_fields order by field`,
  );
  const fields = rows.map(({ field }) => field);
  if (fields.length > 0) void moveTo(dependencies, fields);
}

async function moveTo(
  { database, config, userDataConfig, log }: Dependencies,
  fields: readonly string[],
): Promise<void> {
  const openFields = [...new Set([...userDataConfig().openFields, ...fields])].sort();
  try {
    await config.change(system('upgrade of user data'), 'authentication', {
      userData: { openFields },
    });
    await database.query(
      sql`delete from penstock.open_user_fields where field = any(${fields}::text[])`,
    );
    log.warn(
      { openFields },
      'Users may go on writing these fields of their account; new ones are for the server unless access.write opens them',
    );
  } catch (error) {
    log.error(
      { err: error, openFields },
      'The fields that users may write could not be noted in the configuration; the next start tries again',
    );
  }
}

/* Public profiles: what the operator has marked of users, for other users. */

export interface Profiles {
  /** JSON text. Throws 404. */
  get(caller: Caller, userId: string): Promise<string>;
  /** JSON text `{documents, count}`: those of them that there are, each once, in the order of the ids. */
  list(caller: Caller, userIds: readonly string[]): Promise<string>;
}

export function createProfiles(
  kernel: Pick<Kernel, 'database' | 'schemas' | 'permissions'>,
): Profiles {
  const read = (caller: Caller, userIds: readonly string[]) =>
    publicRecords(kernel, caller, userSchema.name, userIds);
  return {
    async get(caller, userId) {
      const [profile] = await read(caller, [userId]);
      if (!profile) throw authErrors.USER_NOT_FOUND();
      return profile.json;
    },
    async list(caller, userIds) {
      const documents = await read(caller, [...new Set(userIds)]);
      return `{"documents":[${documents.map(({ json }) => json).join()}],"count":${documents.length}}`;
    },
  };
}

/** What is public of users under a configuration; `undefined`: nothing. */
export const profileView = ({
  fields,
  visitors,
  hideBlocked,
}: ProfilesConfig): PublicView | undefined =>
  fields.length === 0
    ? undefined
    : { fields: new Set(fields), visitors, ...(hideBlocked && { onlyIf: 'active' }) };

/** Marked fields that users do not have, as a warning: they may come with a schema that is not there yet. */
export const unknownProfileFields = (
  { fields }: Pick<ProfilesConfig, 'fields'>,
  schemas: Pick<SchemaRegistry, 'get'>,
): readonly string[] => {
  const known = schemas.get(userSchema.name)?.compiledFields;
  return fields.flatMap((name, at) =>
    known && !Object.hasOwn(known, name)
      ? [`profiles.fields.${at}: users have no field "${name}"; it is shown once they do`]
      : [],
  );
};
