//! JSON into structs by the names of their members alone.
//!
//! Derived code can read a struct from an array of its members as well. Nothing writes structs so, and yet that second way is a
//! quarter of all code that reads JSON. What is read through [`from_str`] never asks for it, so it is not in the binary.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::fmt;

/// Reads a value; structs and variants with members must be objects.
///
/// # Errors
/// As [`serde_json::from_str`].
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Named(&mut json))?;
    json.end()?;
    Ok(value)
}

/// Whatever reads, with structs by name, and all that is inside of it.
struct Named<T>(T);

macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Named(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Named(visitor))
    }

    forward! {
        deserialize_any()
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_i128()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_u128()
        deserialize_f32()
        deserialize_f64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_bytes()
        deserialize_byte_buf()
        deserialize_option()
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier()
        deserialize_ignored_any()
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty))*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Named<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool)
        visit_i64(i64)
        visit_i128(i128)
        visit_u64(u64)
        visit_u128(u128)
        visit_f64(f64)
        visit_str(&str)
        visit_borrowed_str(&'de str)
        visit_string(String)
        visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8])
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Named(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Named(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Named(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Named(members))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Named(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Named<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Named(from))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Named<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Named(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Named<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Named(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Named(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Named<A> {
    type Error = A::Error;
    type Variant = Named<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, content) = self.0.variant_seed(Named(seed))?;
        Ok((value, Named(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Named<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Named(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Named(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.newtype_variant_seed(Members(visitor))
    }
}

/// The members of a variant, which are an object.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Members<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        from.deserialize_map(Named(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair(u32, String);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapped(f64);

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Unit,
        One(Vec<Wrapped>),
        Two(i64, bool),
        Members { at: u64, inside: Option<Box<All>> },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        A { x: i8 },
        B(Members2),
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Members2 {
        y: (u8, char),
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        pair: Pair,
        kinds: Vec<Kind>,
        map: BTreeMap<String, Option<u128>>,
        tagged: Vec<Tagged>,
        #[serde(default)]
        missing: Option<i32>,
        unit: (),
    }

    fn all() -> All {
        All {
            pair: Pair(7, "\u{e4}\"\n".into()),
            kinds: vec![
                Kind::Unit,
                Kind::One(vec![Wrapped(0.1), Wrapped(-1e300)]),
                Kind::Two(i64::MIN, true),
                Kind::Members { at: u64::MAX, inside: None },
            ],
            map: BTreeMap::from([("a".into(), Some(u128::MAX)), ("b".into(), None)]),
            tagged: vec![Tagged::A { x: -3 }, Tagged::B(Members2 { y: (1, 'x') })],
            missing: Some(-9),
            unit: (),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut value = all();
        value.kinds.push(Kind::Members { at: 1, inside: Some(Box::new(all())) });
        let text = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(from_str::<All>(&text).unwrap(), value);
        assert_eq!(from_str::<All>(&text).unwrap(), serde_json::from_str::<All>(&text).unwrap());
    }

    #[test]
    fn structs_have_names() {
        let array = r#"[[1, "x"]]"#;
        assert!(
            serde_json::from_str::<Vec<Pair>>(array).is_ok()
                && from_str::<Vec<Pair>>(array).is_ok()
        );
        let array = r#"{"Members": [1, null]}"#;
        assert!(serde_json::from_str::<Kind>(array).is_ok());
        assert!(from_str::<Kind>(array).is_err());
        assert!(serde_json::from_str::<Members2>(r#"[[1, "x"]]"#).is_ok());
        assert!(from_str::<Members2>(r#"[[1, "x"]]"#).is_err());
    }

    #[test]
    fn what_is_wrong_is_said_in_the_same_words() {
        for text in
            ["", "{", "{}", r#"{"y": [1]}"#, r#"{"y": [1, "xy"]}"#, r#"{"y": [1, "x"]} 3"#, "7"]
        {
            let own = from_str::<Members2>(text).unwrap_err().to_string();
            let other = serde_json::from_str::<Members2>(text).unwrap_err().to_string();
            assert_eq!(own, other, "{text}");
        }
    }
}
