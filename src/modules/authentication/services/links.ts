/** Addresses that messages and answers carry. They are built by URL, so that a query that is there already stays. */

export interface Links {
  /** A path of our own client surface as a whole address: `/hook/authentication/verify-email/...`. */
  to(path: string): string;
}

export const createLinks = (publicUrl: () => string): Links => ({ to: (path) => `${publicUrl()}${path}` });

/** The address with these parameters in its query; one that was there under the same name is replaced. */
export function withQuery(address: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The address with these parameters behind `#`, which browsers do not send to servers. */
export function withFragment(address: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(address);
  url.hash = new URLSearchParams(parameters).toString();
  return url.href;
}
