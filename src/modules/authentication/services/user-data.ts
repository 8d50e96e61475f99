/**
 * What users and admins may write into an account beside its built-in fields: the fields by which the
 * schema `User` was extended, and nothing else. An allow-list, so that no spelling of a built-in field
 * (dotted, with an operator, inherited) can get through.
 */

import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import type { RecordInput } from '../../../kernel/records/store.ts';
import type { SchemaRegistry } from '../../../kernel/schema/registry.ts';
import { cutText } from '../../../kernel/text.ts';
import { authErrors } from '../errors.ts';
import { builtInFields, userSchema } from '../schemas.ts';

/** The names that `userData` may hold now. */
export function extensionFields(schemas: SchemaRegistry): ReadonlySet<string> {
  const compiled = schemas.get(userSchema.name);
  return new Set(Object.keys(compiled?.compiledFields ?? {}).filter((name) => !builtInFields.has(name)));
}

/** The data itself when all of its keys are allowed; throws 400 that names each other key. */
export function allowedUserData(schemas: SchemaRegistry, userData: Readonly<Record<string, unknown>>): RecordInput {
  const allowed = extensionFields(schemas);
  const problems = Object.keys(userData)
    .filter((name) => !allowed.has(name))
    .map(
      (name): Problem => ({
        path: `userData.${cutText(name, 100)}`,
        rule: 'unknown',
        message: 'this is not a field that extends the user',
      }),
    );
  if (problems.length > 0) throw authErrors.UNKNOWN_USER_DATA({ errors: problems });
  return userData;
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
  ['username', authErrors.USERNAME_TAKEN],
  ['phoneNumber', authErrors.PHONE_NUMBER_TAKEN],
]);

function translated(error: PenstockError): PenstockError {
  const { errors: problems } = error;
  if (!problems) return error;
  const clash = problems.map(({ path }) => taken.get(path)).find((factory) => factory !== undefined);
  if (error.status === 409 && clash) return clash({ errors: problems });
  const moved = problems.map((problem) => (builtInFields.has(problem.path) ? problem : { ...problem, path: `userData.${problem.path}` }));
  const details = { message: error.message, errors: moved, ...(error.detail === undefined ? {} : { detail: error.detail }) };
  return new PenstockError(error.code, error.status, error.message, details);
}
