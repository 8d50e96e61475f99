/** The name that Apple gives with the first sign-in only, beside the ID token and unsigned. */
import { cutText, storable } from '../../../../kernel/text.ts';
import type { ExternalProfile } from './profile.ts';

const maxLength = 4096;

/** The profile with that name: good enough to greet somebody, and nothing else of it is used. */
export function withName(profile: ExternalProfile, user: string | undefined): ExternalProfile {
  if (user === undefined || user.length > maxLength || profile.name !== undefined) return profile;
  const name = nameIn(user);
  return name === '' ? profile : { ...profile, name };
}

function nameIn(user: string): string {
  try {
    const { name } = JSON.parse(user) as { readonly name?: { readonly firstName?: unknown; readonly lastName?: unknown } };
    const parts = [name?.firstName, name?.lastName].filter((part): part is string => typeof part === 'string');
    return cutText(
      storable(parts.join(' '))
        .replace(/\p{Cc}/gu, ' ')
        .trim(),
      200,
    );
  } catch {
    return '';
  }
}
