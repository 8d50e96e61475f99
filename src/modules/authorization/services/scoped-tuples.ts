/**
 * Relations as operators write them, within the scopes of their tokens. What is written about a type that a module has
 * declared (the members of a `Team`) is that module's data; types that operators declare belong to whoever sets permissions.
 */
import type { ObjectDirectory } from '../../../kernel/authority/about.ts';
import { modulesOfCaller, requireAuthority } from '../../../kernel/authority/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Tuples } from './tuples.ts';

export function scopedTuples(tuples: Tuples, objects: Pick<ObjectDirectory, 'type'>): Tuples {
  const requireType = (caller: Caller, type: string): void => {
    const object = objects.type(type);
    if (object) requireAuthority(caller, object);
  };
  return {
    ...tuples,
    async write(caller, wanted) {
      for (const { resource } of wanted) requireType(caller, resource.type);
      return tuples.write(caller, wanted);
    },
    async remove(caller, id) {
      if (modulesOfCaller(caller)) requireType(caller, (await tuples.get(id)).resource.type);
      await tuples.remove(caller, id);
    },
    async removeMatching(caller, kind, filter) {
      const type = filter.resource?.type ?? filter.resourceType;
      if (type !== undefined) requireType(caller, type);
      else if (modulesOfCaller(caller))
        throw invalid('resourceType', 'required', 'a token that is narrowed to modules names the resource, or its type');
      return tuples.removeMatching(caller, kind, filter);
    },
  };
}
