/** What a provider says about a person, in one form. Everything in it is untrusted text until it was checked here. */

/** An account at a provider. `provider` and `subject` together are its only key. */
export interface ExternalProfile {
  /** The provider's own id of the account: stable, never given to somebody else. */
  readonly subject: string;
  /** As the provider wrote it. */
  readonly email?: string;
  /** Whether the provider vouches that the person reads mail at that address. */
  readonly emailVerified: boolean;
  readonly name?: string;
  readonly username?: string;
  readonly picture?: string;
}

/** A JSON object of unknown content. */
export type Claims = Readonly<Record<string, unknown>>;

export const isClaims = (value: unknown): value is Claims => typeof value === 'object' && value !== null && !Array.isArray(value);

const maxTextLength = 512;
const maxAddressLength = 2048;

/** A text of that name; numbers count as text (ids of several providers are numbers). Nothing when it is too long to be honest. */
export function textOf(claims: Claims, name: string, maxLength = maxTextLength): string | undefined {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  if (typeof value !== 'string' || value === '' || value.length > maxLength) return undefined;
  return value.replace(/\p{Cc}/gu, ' ');
}

/** The address of a picture, which is often long. */
export const pictureOf = (claims: Claims, name: string): string | undefined => textOf(claims, name, maxAddressLength);

/** Providers write this as a boolean, as text, or as 1. Everything else is no. */
export function flagOf(claims: Claims, name: string): boolean {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return value === true || value === 'true' || value === 1 || value === '1';
}

export const objectOf = (claims: Claims, name: string): Claims => {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return isClaims(value) ? value : {};
};

/** The parts of a profile that are there. `subject` must be; the caller refuses the answer otherwise. */
export function profileOf(parts: {
  readonly subject: string;
  readonly email?: string | undefined;
  readonly emailVerified: boolean;
  readonly name?: string | undefined;
  readonly username?: string | undefined;
  readonly picture?: string | undefined;
}): ExternalProfile {
  const { subject, emailVerified, email, name, username, picture } = parts;
  return {
    subject,
    emailVerified: email !== undefined && emailVerified,
    ...(email === undefined ? {} : { email }),
    ...(name === undefined ? {} : { name }),
    ...(username === undefined ? {} : { username }),
    ...(picture !== undefined && isWebAddress(picture) ? { picture } : {}),
  };
}

/** A picture's address may end up in somebody's page. */
const isWebAddress = (text: string): boolean => URL.canParse(text) && new URL(text).protocol === 'https:';
