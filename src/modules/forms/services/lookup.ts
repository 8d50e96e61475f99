/** Looking an address up in a public list of spammers. Off unless an operator wants it; no answer is no objection. */
import { createOutboundFetch } from '../../../kernel/outbound.ts';
import type { FormParts } from './form-parts.ts';
import type { Signal } from './spam.ts';

const address = 'https://api.stopforumspam.org/api';

/** What the list says: nothing, that it has the address, or that it could not be asked. */
export type Lookup = (email: string) => Promise<Signal | undefined>;

export function createLookup({ config, log }: Pick<FormParts, 'config' | 'log'>): Lookup {
  return async (email) => {
    const { lookup, lookupUrl, lookupTimeoutMs } = config().spam;
    if (lookup === 'none') return undefined;
    // Another address than that of the list is the super admin's word, who may mean their own network.
    const fetch = createOutboundFetch({
      allowInternal: () => lookupUrl !== '',
      timeoutMs: lookupTimeoutMs,
      maxBytes: 65_536,
    });
    try {
      const url = new URL(lookupUrl || address);
      url.searchParams.set('json', 'true');
      url.searchParams.set('email', email);
      const response = await fetch(url.href);
      if (response.status !== 200) throw new Error(`the list answered ${response.status}`);
      return isListed(await response.json()) ? 'lookup' : undefined;
    } catch (error) {
      log.warn({ err: error }, 'The list of spammers could not be asked');
      return 'lookupFailed';
    }
  };
}

/** `{email: {appears: 1, blacklisted: 1, ...}}` */
function isListed(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) throw new Error('the list answered no object');
  const email: unknown = Reflect.get(answer, 'email');
  if (typeof email !== 'object' || email === null) throw new Error('the list answered no address');
  return ['blacklisted', 'appears'].some((name) => Number(Reflect.get(email, name)) === 1);
}
