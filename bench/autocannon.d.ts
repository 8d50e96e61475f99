/** The part of autocannon 9 that the load process uses (the package brings no types). */
declare module 'autocannon' {
  import type { EventEmitter } from 'node:events';

  namespace autocannon {
    interface Request {
      method: string;
      path: string;
      headers?: Record<string, string>;
      body?: string;
    }

    /** One connection. */
    interface Client {
      setRequests(requests: Request[]): void;
    }

    interface Options {
      url: string;
      connections: number;
      /** Seconds. */
      duration: number;
      setupClient?: (client: Client) => void;
    }

    interface Result {
      '2xx': number;
      non2xx: number;
      errors: number;
      timeouts: number;
      /** Seconds. */
      duration: number;
    }

    interface Run extends EventEmitter, PromiseLike<Result> {}
  }

  function autocannon(options: autocannon.Options): autocannon.Run;
  export = autocannon;
}
