/** The client library (openid-client), made to send its requests the way the platform sends requests. */
import { allowInsecureRequests, type Configuration, type CustomFetch, customFetch, type DiscoveryRequestOptions } from 'openid-client';
import type { OutboundFetch } from '../../../../kernel/outbound/fetch.ts';

/** Seconds. The fetch gives up earlier. */
const timeout = 15;

const asCustomFetch =
  (fetch: OutboundFetch): CustomFetch =>
  (url, { method, headers, body, signal }) =>
    fetch(url, {
      method,
      headers,
      ...(body === undefined || body === null ? {} : { body: String(body) }),
      ...(signal === undefined ? {} : { signal }),
    });

/** Options of a discovery. Plain HTTP only where the operator opened his own network; the fetch checks it once more. */
export const libraryOptions = (fetch: OutboundFetch, allowInternal: boolean): DiscoveryRequestOptions => ({
  [customFetch]: asCustomFetch(fetch),
  timeout,
  ...(allowInternal ? { execute: [allowInsecureRequests] } : {}),
});

/** The same for a configuration that was made without discovery. */
export function prepared(configuration: Configuration, fetch: OutboundFetch, allowInternal: boolean): Configuration {
  configuration[customFetch] = asCustomFetch(fetch);
  configuration.timeout = timeout;
  if (allowInternal) allowInsecureRequests(configuration);
  return configuration;
}
