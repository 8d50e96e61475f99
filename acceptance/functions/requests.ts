/** Requests that tests of functions share, and the stream of what runs log. */
import { expect } from 'vitest';
import type { Api } from '../../test/support/api.ts';
import { testMasterKey } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

export interface StoredFunctionView {
  readonly _id: string;
  readonly version: number;
  readonly language: string;
  readonly [key: string]: unknown;
}

interface Given {
  readonly name: string;
  readonly functionCode: string;
  readonly functionType?: string;
  readonly inputs?: object;
  readonly returns?: unknown;
  readonly timeout?: number;
}

/** Stores a function; a `request` by GET unless it says otherwise. */
export async function upload(admin: Api, given: Given): Promise<StoredFunctionView> {
  const answer = await admin.post('/functions/upload', {
    functionType: 'request',
    inputs: { method: 'GET' },
    ...given,
  });
  expect(answer).toMatchObject({ status: 200 });
  return answer.body as unknown as StoredFunctionView;
}

export interface TestRunView {
  readonly result: unknown;
  readonly error: Readonly<Record<string, unknown>> | null;
  readonly logs: readonly unknown[];
  readonly executionId: string;
  readonly [key: string]: unknown;
}

export async function invoke(admin: Api, id: string, body: object): Promise<TestRunView> {
  const answer = await admin.post(`/functions/${id}/invoke`, body);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body as unknown as TestRunView;
}

export interface ToldLine {
  readonly kind: string;
  readonly functionName?: string;
  readonly text?: string;
  readonly [fact: string]: unknown;
}

/** Follows `GET /functions/logs/stream` from the moment at which this returns. */
export async function follow(
  { addresses }: { readonly addresses: { readonly admin: string } },
  query = '',
  credential: Readonly<Record<string, string>> = { masterkey: testMasterKey },
) {
  const end = new AbortController();
  const { body } = await fetch(`${addresses.admin}/functions/logs/stream${query}`, {
    headers: { ...credential, accept: 'text/event-stream' },
    signal: end.signal,
  });
  const lines: ToldLine[] = [];
  const reading = (async () => {
    let text = '';
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = (text + chunk).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
        if (kind !== undefined) lines.push({ kind, ...JSON.parse(data ?? '{}') });
      }
    }
  })().catch(() => undefined);
  const heard = (kind: string, functionName?: string): Promise<ToldLine> =>
    waitFor(
      () =>
        lines.find(
          (line) =>
            line.kind === kind &&
            (functionName === undefined || line.functionName === functionName),
        ),
      { what: `${kind} of ${functionName ?? 'a function'}` },
    );
  await heard('open');
  return {
    lines,
    heard,
    /** Settles when the stream is over. */
    ended: reading,
    close() {
      end.abort();
      return reading;
    },
  };
}
