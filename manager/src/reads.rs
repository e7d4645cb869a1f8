//! Objects that are asked for, beside the watches. Their authors decide how deep and how large they are, so
//! what the API server answers is read as a watch reads it: without managed fields, each object by itself,
//! and no more of it than of any; a list comes in pages.

use std::fmt::Debug;

use berth_base::sent::{Received, Sent};
use kube::{
    Api, Resource,
    api::{DynamicObject, ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::telemetry::chain;

/// Objects of one page of a list. A page is read as a whole before anything of it is passed over, and an
/// object may have 1.5 MB; fifty pods as they usually are come within some milliseconds.
pub(crate) const PAGE: u32 = 50;
/// The same of a kind whose objects are as large as their authors like: each takes some MiB at the most.
pub(crate) const SMALL_PAGE: u32 = 8;

/// Reads an object, if there is one.
pub(crate) async fn read<K>(api: &Api<Sent<K>>, name: &str) -> Result<Option<K>, String>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let found = api.get_opt(name).await.map_err(|error| chain(&error))?;
    found.map(Sent::read).transpose()
}

/// Reads an object as a plain value, if there is one.
pub(crate) async fn read_value(api: &Api<Sent<DynamicObject>>, name: &str) -> Result<Option<Value>, String> {
    let Some(DynamicObject { metadata, data: mut value, .. }) = read(api, name).await? else {
        return Ok(None);
    };
    if let Some(fields) = value.as_object_mut() {
        let metadata = serde_json::to_value(metadata).map_err(|error| error.to_string())?;
        fields.insert("metadata".to_owned(), metadata);
    }
    Ok(Some(value))
}

/// Reads all objects of a list, which may be as large as their authors like, and keeps of each what `keep`
/// makes of it.
pub(crate) async fn list<K, V>(api: &Api<K>, keep: impl Fn(K) -> Option<V>) -> kube::Result<Vec<V>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(SMALL_PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items.into_iter().filter_map(&keep));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

/// Replaces the status of an object. Returns the object as it is then.
pub(crate) async fn replace_status<K>(api: &Api<Sent<K>>, name: &str, object: &K) -> kube::Result<Sent<K>>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    api.replace_subresource("status", name, &PostParams::default(), object).await
}

/// The object to be kept for a write of its status, which leaves its metadata as they are: without those that
/// nobody reads.
pub(crate) fn kept<K: Resource>(mut object: K) -> K {
    let meta = object.meta_mut();
    (meta.labels, meta.finalizers, meta.owner_references) = (None, None, None);
    object
}

#[cfg(test)]
mod tests {
    use http::request::Parts;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::ResourceExt;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::served::{client, parameter};

    /// Method and path of a request.
    fn path(request: &Parts) -> String {
        format!("{} {}", request.method, request.uri).trim_end_matches('?').to_owned()
    }

    /// Lists in lists.
    fn deep(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| json!([inner]))
    }

    fn object(managed: &Value, more: &Value) -> Value {
        let metadata = json!({ "name": "a", "namespace": "shop", "uid": "u", "labels": { "l": "1" },
            "managedFields": [{ "manager": "m", "fieldsV1": managed }] });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "a": "b" }, "more": more })
    }

    /// Authors of an object decide of both.
    #[rstest]
    #[case::plain(json!({}), json!({}), Ok(()))]
    #[case::deep_managed_fields(json!({ "a": deep(500) }), json!({}), Ok(()))]
    #[case::wide_managed_fields(json!(vec![json!({ "a": 1 }); 20_000]), json!({}), Ok(()))]
    #[case::deep(json!({}), deep(500), Err("shop/a: more is nested deeper than"))]
    #[case::wide(json!({}), json!(vec![json!({ "a": 1 }); 20_000]), Err("shop/a: it takes too much memory"))]
    #[tokio::test]
    async fn an_object_is_read_as_far_as_any(
        #[case] managed: Value,
        #[case] more: Value,
        #[case] expected: Result<(), &str>,
    ) {
        let answer = object(&managed, &more);
        let (client, asked) = client(move |_| answer.clone());
        let api: Api<Sent<ConfigMap>> = Api::namespaced(client.clone(), "shop");
        let typed = read(&api, "a").await.map(Option::unwrap);
        let written = replace_status(&api, "a", &ConfigMap::default()).await.unwrap().read();
        let values: Api<Sent<DynamicObject>> =
            Api::namespaced_with(client, "shop", &kube::core::ApiResource::erase::<ConfigMap>(&()));
        let value = read_value(&values, "a").await.map(Option::unwrap);
        let ends = [typed.clone().map(drop), written.map(drop), value.clone().map(drop)];
        for end in ends {
            match (&end, expected) {
                (Ok(()), Ok(())) => {}
                (Err(fault), Err(says)) => assert!(fault.starts_with(says), "{fault}"),
                _ => panic!("{end:?}"),
            }
        }
        if let (Ok(typed), Ok(value)) = (typed, value) {
            assert_eq!((typed.metadata.managed_fields, typed.data.unwrap().len()), (None, 1));
            let metadata = json!({ "name": "a", "namespace": "shop", "uid": "u", "labels": { "l": "1" } });
            assert_eq!((&value["metadata"], &value["data"]), (&metadata, &json!({ "a": "b" })));
        }
        let own = "/api/v1/namespaces/shop/configmaps/a";
        let all = [format!("GET {own}"), format!("PUT {own}/status"), format!("GET {own}")];
        assert_eq!(asked.each(path), all);
    }

    #[tokio::test]
    async fn a_list_comes_in_pages() {
        let (client, asked) = client(|request| {
            let is_second = parameter(request, "continue") == Some("second");
            let (next, names) = if is_second { ("", ["c", "d"]) } else { ("second", ["a", "b"]) };
            let items = names.map(|name| json!({ "metadata": { "name": name } }));
            json!({ "kind": "List", "apiVersion": "v1", "metadata": { "continue": next }, "items": items })
        });
        let keep = |one: Namespace| Some(one.name_any()).filter(|name| name != "b");
        assert_eq!(list(&Api::all(client), keep).await.unwrap(), ["a", "c", "d"]);
        let page = format!("GET /api/v1/namespaces?&limit={SMALL_PAGE}");
        assert_eq!(asked.each(path), [page.clone(), format!("{page}&continue=second")]);
    }

    #[test]
    fn what_is_kept_has_no_labels() {
        let object: ConfigMap = serde_json::from_value(object(&json!({}), &json!({}))).unwrap();
        let ConfigMap { metadata, data, .. } = kept(object);
        assert_eq!(
            (metadata.labels, metadata.uid.as_deref(), data.map(|data| data.len())),
            (None, Some("u"), Some(1))
        );
    }
}
