/** Public profiles: what the operator has marked of users, for other users. */
import { publicRecords } from '../../../../data/records/read/public-records.ts';
import type { PublicView } from '../../../../data/schema/public-view.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { ProfilesConfig } from '../../config/profiles.ts';
import { authErrors } from '../../errors.ts';
import { userSchema } from '../../schemas.ts';

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
